"""CelebA: preparation, and labels that are never mixed up. Pixels of the test's images encode their attributes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from celeba_copy import ATTRIBUTES, attributes_of, decoded, write_copy
from helpers import HOSTS, composed, only_run, read_results, weights_of, without
from sklearn.metrics import balanced_accuracy_score
from torchvision.datasets import ImageFolder

from radial_vicreg import cli
from radial_vicreg.compose import run_config
from radial_vicreg.config import RunConfig
from radial_vicreg.data.build import open_data
from radial_vicreg.data.celeba import CelebAFolder, load_attributes, prepare_celeba
from radial_vicreg.data.loader import build_val_loader
from radial_vicreg.errors import UnreachableError, UserError
from radial_vicreg.runs.loaded import open_run
from radial_vicreg.solo.attributes import attributes_by_index, replace_targets
from radial_vicreg.solo.host import build_solo
from radial_vicreg.solo.limits import refuse_impossible
from radial_vicreg.sweeps.grid import load_sweep
from radial_vicreg.train.multi_label import attribute_scores
from radial_vicreg.train.run import build_standalone, prepare

SPLITS = {"train": 12, "val": 6, "test": 4}


@pytest.mark.parametrize("as_csv", [False, True], ids=["authors' layout", "Kaggle's layout"])
def test_every_image_keeps_its_attributes_and_its_split(tmp_path: Path, as_csv: bool) -> None:
    copy = write_copy(tmp_path / "copy", as_csv=as_csv)
    assert cli.main(["data", "celeba", "--source", str(copy), "--out", str(tmp_path / "out")]) == 0
    seen = set()
    for split, count in SPLITS.items():
        dataset = CelebAFolder(tmp_path / "out" / split)
        assert len(dataset) == count
        for index, (image, attributes) in enumerate(dataset):
            assert torch.equal(attributes, decoded(image))
            assert attributes.tolist() == attributes_of(int(Path(dataset.files[index]).stem)).tolist()
        seen |= set(dataset.files)
    assert len(seen) == sum(SPLITS.values())


def test_the_authors_splits_are_the_ones_written(celeba: Path, tmp_path: Path) -> None:
    lines = (tmp_path / "copy" / "list_eval_partition.txt").read_text().splitlines()
    for number, split in enumerate(SPLITS):
        assert load_attributes(celeba / split).files == [line[:10] for line in lines if line.endswith(f" {number}")]


def test_a_copy_in_torchvisions_sub_folder_is_found(tmp_path: Path) -> None:
    write_copy(tmp_path / "copy" / "celeba")
    assert len(CelebAFolder(prepare_celeba(tmp_path / "out", tmp_path / "copy") / "val")) == SPLITS["val"]


def test_a_complete_folder_is_kept_and_one_with_a_dead_link_replaced_on_request(celeba: Path, tmp_path: Path) -> None:
    before = (celeba / "train").stat().st_ino
    prepare_celeba(celeba, tmp_path / "copy")
    assert (celeba / "train").stat().st_ino == before
    link = celeba / "train" / "faces" / "000001.jpg"
    link.unlink()
    link.symlink_to(tmp_path / "gone.jpg")
    with pytest.raises(UserError, match=r"celeba lacks 1 of its 25 files, for example train/faces/000001\.jpg"):
        prepare_celeba(celeba, tmp_path / "copy")
    prepare_celeba(celeba, tmp_path / "copy", replace=True)
    assert len(CelebAFolder(celeba / "train")) == SPLITS["train"]


def test_a_missing_image_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    copy = write_copy(tmp_path / "copy")
    (copy / "img_align_celeba" / "000007.jpg").unlink()
    with pytest.raises(UserError, match=r"lacks 1 of 22 images, for example 000007.jpg"):
        prepare_celeba(tmp_path / "out", copy)
    assert not (tmp_path / "out").exists()


PARTITION, ATTRIBUTE_LIST = "list_eval_partition.txt", "list_attr_celeba.txt"


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (PARTITION, "000004.jpg 0\n", "", "name different images, for example 000004.jpg"),
        (PARTITION, "000004.jpg 0", "000004.jpg 7", "must give 0, 1 or 2 .* got another value for 000004.jpg"),
        (PARTITION, "000004.jpg 0\n", "000004.jpg 0\n000004.jpg 1\n", "has two lines for 000004.jpg that contradict"),
        (PARTITION, "000004.jpg", "\udcff", "list_eval_partition.txt is not a text file"),
        (ATTRIBUTE_LIST, " 1", " 7", "values of -1 or 1"),
        (ATTRIBUTE_LIST, "000005.jpg  ", "000005.jpg  1 ", "got others for 000005.jpg"),
        (ATTRIBUTE_LIST, "Attribute_0 ", "", "names 39 attributes, but CelebA has 40"),
    ],
)
def test_lists_that_contradict_are_refused(tmp_path: Path, file: str, old: str, new: str, message: str) -> None:
    copy = write_copy(tmp_path / "copy")
    text = (copy / file).read_text()
    (copy / file).write_text(text.replace(old, new), errors="surrogateescape")
    with pytest.raises(UserError, match=message):
        prepare_celeba(tmp_path / "out", copy)
    assert not (tmp_path / "out").exists()


def test_an_image_may_be_listed_twice_if_both_lines_agree(tmp_path: Path) -> None:
    copy = write_copy(tmp_path / "copy")
    for file in (PARTITION, ATTRIBUTE_LIST):
        text = (copy / file).read_text()
        (copy / file).write_text(text + next(line for line in text.splitlines() if line.startswith("000004")) + "\n")
    assert prepare_celeba(tmp_path / "out", copy).is_dir()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "", "is not a table of attributes"),
        (lambda text: text.replace(",1", ",2", 1), "line 2: expected a file name and 40 values of 0 or 1"),
        (lambda text: text.replace(",0", "", 1), "line 2: expected"),
        (lambda text: text[: text.rindex("0000")], "name different files"),
    ],
)
def test_a_table_that_was_tampered_with_is_named(celeba: Path, change: Callable[[str], str], message: str) -> None:
    table = celeba / "train" / "attributes.csv"
    table.write_text(change(table.read_text().replace("\r", "")))
    with pytest.raises(UserError, match=message):
        CelebAFolder(celeba / "train")


def test_bad_faces_are_left_out_with_their_attributes(celeba: Path, tmp_path: Path) -> None:
    (tmp_path / "copy" / "img_align_celeba" / "000001.jpg").write_bytes(b"?")
    whole, split = load_attributes(celeba / "train"), celeba / "train"
    with pytest.raises(OSError, match=r"000001\.jpg \(not an image\)"):
        CelebAFolder(split)[whole.files.index("000001.jpg")]
    dataset = CelebAFolder(split, on_bad_image="skip")
    assert [Path(path).name for path in dataset.skipped] == ["000001.jpg"]
    assert len(dataset) == SPLITS["train"] - 1
    assert all(torch.equal(attributes, decoded(image)) for image, attributes in dataset)


def test_another_folder_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.train_path=.*run `radial-vicreg data celeba`"):
        CelebAFolder(tmp_path)


def test_a_failed_download_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no network")

    monkeypatch.setattr("torchvision.datasets.CelebA.download", refuse)
    with pytest.raises(UnreachableError, match=r"^.*could not be downloaded \(no network\).*--source[^\n]*$"):
        prepare_celeba(tmp_path / "celeba")


def test_scores_are_those_of_a_count_by_hand() -> None:
    logits = torch.tensor([[2.0, -1.0], [0.5, 0.5]])
    targets = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    loss, accuracy = attribute_scores(logits, targets)
    probability = torch.sigmoid(logits)
    expected = -(targets * probability.log() + (1 - targets) * (1 - probability).log()).mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert accuracy.item() == 50.0


# ---- solo-learn's script ----


def script_config(celeba: Path, *overrides: str) -> RunConfig:
    given = ["data.dataset=custom", "data.val_path=null", *overrides, f"data.train_path={celeba / 'train'}"]
    return run_config(composed("celeba/resnet18/radial_ce_d512", *given), "script")


def test_attributes_are_found_by_the_numbers_of_solo_learns_readers(celeba: Path) -> None:
    table = attributes_by_index(script_config(celeba))
    reader = ImageFolder(str(celeba / "train"))  # what solo-learn wraps; DALI lists the same sorted files
    order = torch.tensor([5, 0, 11, 3])
    *_, targets = replace_targets([order, order, torch.zeros(4)], table)
    assert torch.equal(targets, torch.stack([decoded(reader[index][0]) for index in order.tolist()]))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.format=dali", "only with dali.encode_indexes_into_labels=true"),
        ("data.fraction=0.5", "would be wrong"),
        ("data.val_path=elsewhere", "data.val_path=null"),
    ],
)
def test_settings_that_would_mix_up_labels_are_refused(celeba: Path, override: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        attributes_by_index(script_config(celeba, override))


def test_dali_with_file_numbers_is_accepted(celeba: Path) -> None:
    dali = ("data.format=dali", "dali.encode_indexes_into_labels=true")
    config = script_config(celeba, *dali)
    assert attributes_by_index(config).shape == (SPLITS["train"], ATTRIBUTES)
    with pytest.raises(UserError, match="limit_val_batches=0"):  # Lightning would stop at the loader that is None
        refuse_impossible(config)
    refuse_impossible(script_config(celeba, *dali, "limit_val_batches=0"))


# ---- runs ----


@pytest.fixture
def celeba_overrides(celeba: Path, tmp_path: Path) -> list[str]:
    """Cuts a CelebA cell down to a few steps on a CPU."""
    return [
        f"data.train_path={celeba / 'train'}",
        f"data.val_path={celeba / 'val'}",
        "data.num_workers=0",
        "augment.crop_size=32",
        "method_kwargs.proj_output_dim=8",
        "optimizer.batch_size=4",  # validation has six images: batches of four and two
        "max_epochs=1",
        "scheduler.warmup_epochs=0",
        "accelerator=cpu",
        "diagnostics.enabled=false",
        f"runs_dir={tmp_path / 'runs'}",
    ]


def balanced_accuracy_of(folder: Path, sizes: list[int]) -> tuple[float, float]:
    """Of the checkpoint's linear probe over all validation images, and the mean of the batches' values."""
    run = open_run(folder)
    loader = build_val_loader(run.config, open_data(run.config))
    assert loader is not None
    state = torch.load(run.checkpoint, weights_only=True)["state_dict"]
    probe = torch.nn.functional.linear
    with torch.no_grad():
        batches = [
            (probe(run.model(images)["feats"], state["classifier.weight"], state["classifier.bias"]), targets)
            for images, targets in loader
        ]
    assert [len(targets) for _, targets in batches] == sizes

    def score(logits: torch.Tensor, targets: torch.Tensor) -> float:
        mixed = [a for a in range(ATTRIBUTES) if 0 < targets[:, a].sum() < len(targets)]
        return float(np.mean([100 * balanced_accuracy_score(targets[:, a], logits[:, a] > 0) for a in mixed]))

    logits, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
    return score(logits, targets), float(np.mean([score(*batch) for batch in batches]))


def pretrain(overrides: list[str], host: str, tmp_path: Path) -> Path:
    """The folder of a run."""
    cell = ["--config-name", "celeba/resnet18/radial_kl_d512", *overrides, f"host={host}"]
    assert cli.main(["pretrain", *cell]) == 0
    return only_run(tmp_path / "runs")


@pytest.mark.slow
@pytest.mark.parametrize("host", HOSTS)
def test_it_trains_and_validates_on_either_host(host: str, celeba_overrides: list[str], tmp_path: Path) -> None:
    folder = pretrain(celeba_overrides, host, tmp_path)
    results = read_results(folder)
    assert (results["status"], results["steps"]) == ("finished", 3)
    epoch: dict[str, Any] = results["history"][-1]
    for name in ("train_class_loss", "val_loss"):
        assert 0.3 < epoch[name] < 2.0  # binary cross-entropy of an untrained probe is about ln 2 = 0.69
    assert 20 < epoch["val_attribute_acc"] < 80
    assert not any(name.endswith(("val_acc1", "val_acc5", "train_acc1", "train_acc5")) for name in epoch)
    assert not any("balanced" in name for name in weights_of(folder))  # older checkpoints load as strictly
    exact, mean_of_batches = balanced_accuracy_of(folder, [4, 2])
    assert epoch["val_balanced_accuracy"] == pytest.approx(exact, abs=1e-3)
    assert results["probes"]["online_linear"]["balanced_accuracy"] == pytest.approx(exact, abs=1e-3)
    assert abs(mean_of_batches - exact) > 0.1
    for sweep in ("celeba_resnet18", "tables/table4"):
        assert load_sweep(sweep).content["metric"]["name"] in epoch


@pytest.mark.slow
def test_two_processes_count_all_validation_images(
    celeba_overrides: list[str], tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    cell = ["--config-name", "celeba/resnet18/vicreg_d512", *celeba_overrides]
    two = ["host=standalone", "devices=2", "strategy=ddp", "optimizer.batch_size=2"]
    done = run_python("-m", "radial_vicreg.cli", "pretrain", *cell, *two)
    assert done.returncode == 0, done.stderr
    results = read_results(folder := only_run(tmp_path / "runs"))
    exact, _ = balanced_accuracy_of(folder, [2, 2, 2])
    assert results["history"][-1]["val_balanced_accuracy"] == pytest.approx(exact, abs=1e-3)
    assert results["probes"]["online_linear"]["balanced_accuracy"] == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("host", HOSTS)
def test_a_training_batch_carries_the_attributes_that_its_images_show(host: str, celeba_overrides: list[str]) -> None:
    plain = [f"augment.{name}=0" for name in ("horizontal_flip", "gaussian_blur", "grayscale")]
    whole = ["augment.crop_size=64", "augmentations.0.color_jitter.prob=0", "augmentations.0.rrc.enabled=false"]
    overrides = [*without(celeba_overrides, "augment.crop_size"), *plain, *whole]
    config = prepare(run_config(composed("celeba/resnet18/vicreg_d512", *overrides)))
    build = build_solo if host == "solo" else build_standalone
    for _, views, targets in build(config, open_data(config)).train_loader:
        for view in views:
            # 40 x 64 pixels resized to 64 x 102 and normalised: the sign of a square's centre is its attribute.
            scale = view.shape[-2] / 5
            rows = ((torch.arange(5) + 0.5) * scale).long()
            columns = ((torch.arange(8) + 0.5) * view.shape[-1] / 8).long()
            shown = (view.mean(1)[:, rows][:, :, columns] > 0).float().flatten(1)
            assert torch.equal(shown, targets)
