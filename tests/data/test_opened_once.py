"""Folders of a run are listed and looked through once, and what is left out of them is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from configs import make_config
from helpers import only_run, read_results

from radial_vicreg import cli
from radial_vicreg.data import folder as folder_module
from radial_vicreg.data.build import open_data
from radial_vicreg.data.folder import LabelledFolder
from radial_vicreg.runs.results import DataNotes
from radial_vicreg.solo.limits import refuse_links


@pytest.mark.parametrize("fraction", [-1, 0.5])
def test_what_is_left_out_is_told_for_both_sets(
    image_folder: Callable[..., Path],
    fraction: float,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("radial_vicreg.data.listing._told", set())  # pytest may give a folder's name again
    train, val = image_folder("train", per_class=4), image_folder("val", per_class=2)
    for name in ("a.gif", "b.GIF", "phone.HEIC"):
        (train / "class_0" / name).touch()
    paths = {"data__train_path": str(train), "data__val_path": str(val), "data__fraction": fraction}
    config = make_config(**paths, probes__frozen_linear=False)
    refuse_links(config)  # all that solo-learn's script asks of us
    assert f"{train}: omitted 3 files of unsupported types: 2 .gif (a.gif, b.GIF)" in capsys.readouterr().out
    data = open_data(config)
    assert data.omitted == {}  # nothing is listed for this alone
    assert len(data.train_images) == (12 if fraction < 0 else 6)
    assert data.val_images is not None
    assert data.omitted == {"train": {".gif": 2, ".heic": 1}}
    assert data.skipped == {}
    (bad := train / "class_0" / "broken.png").write_bytes(b"no image")
    skipping = make_config(**paths, data__on_bad_image="skip")
    assert open_data(skipping).skipped == {"train": (str(bad),), "val": ()}
    notes = DataNotes.model_validate({"skipped_images": {"train": 1}})  # of version 0.2, which has no other key
    assert notes.omitted_files == {}


def test_a_run_lists_and_opens_each_folder_once(
    tiny_overrides: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Training set, frozen probe, validation and the note on what is left out share their images."""
    (tmp_path / "train" / "class_0" / "a.gif").touch()
    listed: list[Path] = []
    opened: list[str] = []
    make_dataset, look_through = LabelledFolder.make_dataset, folder_module.unreadable_images

    def counted(self: LabelledFolder, directory: str | Path, *arguments: Any, **keywords: Any) -> Any:
        listed.append(Path(directory))
        return make_dataset(self, directory, *arguments, **keywords)

    def counted_opening(paths: Iterable[Any], *arguments: Any) -> Any:
        found = list(paths)
        opened.extend(map(str, found))
        return look_through(found, *arguments)

    monkeypatch.setattr(LabelledFolder, "make_dataset", counted)
    monkeypatch.setattr(folder_module, "unreadable_images", counted_opening)
    settings = ["host=standalone", "max_epochs=1", "probes.frozen_linear=true", "data.on_bad_image=skip"]
    assert cli.main(["pretrain", *tiny_overrides, *settings]) == 0
    assert sorted(folder.name for folder in listed) == ["train", "val"]
    assert len(opened) == len(set(opened)) == 24 + 12
    assert capsys.readouterr().out.count("omitted 1 file of unsupported types: 1 .gif (a.gif)") == 1
    notes = {"skipped_images": {"train": 0, "val": 0}, "omitted_files": {"train": {".gif": 1}}}
    assert read_results(only_run(tmp_path / "runs"))["data"] == notes
