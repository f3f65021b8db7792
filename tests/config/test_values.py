"""What a configuration may hold: one line for whatever is wrong, with the key, the value and what is expected."""

from __future__ import annotations

import copy
import re

import pytest
from configs import make_config, plain_config

from radial_vicreg.config import ProbesConfig, read_config
from radial_vicreg.errors import UserError

NEIGHBOURS = "a list of one or more, each a whole number, 1 or more"
DEVICES = "devices must be a list such as [0], a positive number, auto or -1, got"


def test_a_bad_value_is_named_with_what_it_may_be() -> None:
    for key, value, message in [
        ("devices", 0, f"{DEVICES} 0"),
        ("devices", [], f"{DEVICES} []"),
        ("devices", "two", f"{DEVICES} 'two'"),
        ("devices", -3, f"{DEVICES} -3"),
        *((f"optimizer__{rate}", None, f"optimizer.{rate} is not set") for rate in ("lr", "classifier_lr")),
        ("optimizer__batch_size", None, "optimizer.batch_size is not set"),
        (
            "method_kwargs__small_image_stem",
            "tiny",
            "method_kwargs.small_image_stem must be auto, true or false, got 'tiny'",
        ),
        ("data__fraction", 1.5, "data.fraction must be a finite number, -1 to 1, or null, got 1.5"),
        ("data__cache", "rma", "data.cache must be one of none, ram, or null, got 'rma'"),
        ("scheduler__warmup_epochs", -1, "scheduler.warmup_epochs must be a finite number, 0 or more, got -1"),
        ("probes__lr", 0.0, "probes.lr must be a finite number, above 0, got 0.0"),
        ("probes__knn_bank", 0, "probes.knn_bank must be a whole number, 1 or more, got 0"),
        ("probes__knn_neighbours", [], f"probes.knn_neighbours must be {NEIGHBOURS}, got []"),
        ("probes__knn_neighbours", [5, 0], f"probes.knn_neighbours must be {NEIGHBOURS}, got 0"),
        ("augmentations", [], "augmentations must be a list of one or more of sections, got []"),
        ("augmentations", [5], "augmentations.0 must be a section with keys, got 5"),
        ("augmentations__0__mean", [1, 2], "augmentations.0.mean must be three numbers, or null, got [1, 2]"),
        ("probes__mlp_hidden_dim", 0, "probes.mlp_hidden_dim must be a whole number, 1 or more, got 0"),
        *(
            (key, "a\\b", f"{key} must be a text that is valid as a file name, without / and \\, got")
            for key in ("name", "method")
        ),
        ("probes__encoder_mpl", True, "probes.encoder_mpl is not a setting; did you mean probes.encoder_mlp?"),
    ]:
        with pytest.raises(UserError, match=re.escape(message)) as caught:
            make_config(**{key: value})
        assert "\n" not in str(caught.value)


def test_reading_changes_nothing() -> None:
    content = plain_config(probes__lr=0.1)
    before = copy.deepcopy(content)
    read_config(content)
    assert content == before


def test_settings_beside_the_online_probes_are_kept() -> None:
    probes = make_config(probes={"frozen_linear": True, "encoder_mlp": False}).probes
    assert probes == ProbesConfig(frozen_linear=True, encoder_mlp=False)


def test_the_smallest_scale_of_crops_may_be_the_largest_and_no_larger() -> None:
    def scales(smallest: float, largest: float) -> tuple[float, float]:
        rrc = {"augmentations__0__rrc__crop_min_scale": smallest, "augmentations__0__rrc__crop_max_scale": largest}
        return make_config(**rrc).augmentations[0].rrc.scale

    assert scales(0.5, 0.5) == (0.5, 0.5)
    with pytest.raises(UserError, match=r"rrc\.crop_min_scale must not be above crop_max_scale, got 0\.51 and 0\.5$"):
        scales(0.51, 0.5)
