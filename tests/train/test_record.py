"""What a checkpoint keeps of the results, and a resumed run takes up again."""

from __future__ import annotations

from configs import plain_config

from radial_vicreg.train.callbacks.record import ResultsWriter


def test_the_time_of_a_resumed_run_includes_the_starts_before() -> None:
    writer = ResultsWriter(plain_config(), "standalone")
    kept = {**writer.state_dict(), "seconds": 100.0, "history": [{"epoch": 1, "train_loss": 3.0}]}
    resumed = ResultsWriter(plain_config(), "standalone")
    resumed.load_state_dict(kept)
    found = resumed.state_dict()
    assert found["seconds"] >= 100
    assert found["history"] == kept["history"]
