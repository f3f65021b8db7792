"""Exported backbones, and exports as repositories of the Hugging Face Hub: timm loads them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from helpers import RESNET, SMALL_STEM, composed, one_line, read_results, write_checkpoint, write_finished_run
from huggingface_hub import ModelCard
from packaging.version import parse as version
from PIL import Image

from radial_vicreg.cli import main
from radial_vicreg.data.build import open_data
from radial_vicreg.errors import UserError
from radial_vicreg.export import export_run, hub, load_exported, read_card, writing
from radial_vicreg.io.secrets import HIDDEN
from radial_vicreg.runs.loaded import open_run

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tiny_overrides: list[str], tmp_path: Path) -> MakeRun:
    """Leaves a finished run; positional arguments are overrides, keywords are keys of its results."""

    def make(*overrides: str, **content: object) -> Path:
        cfg = composed("radialvicreg", *tiny_overrides, *overrides)
        return write_finished_run(tmp_path / "run", cfg, **{"probes": {"p": {"top1": 9.0}}, **content})

    return make


TIMM_RESNET = ["backbone.name=timm:test_resnet", "backbone.kwargs=null"]


@pytest.mark.parametrize(
    ("overrides", "fmt"),
    [
        *(pytest.param(RESNET, fmt, marks=pytest.mark.slow) for fmt in ("torchvision", "timm", "hf")),
        pytest.param(SMALL_STEM, "torchvision", marks=pytest.mark.slow),
        ([], "timm"),
        ([], "safetensors"),
        pytest.param([], "hf", marks=pytest.mark.slow),
        pytest.param(TIMM_RESNET, "timm", marks=pytest.mark.slow),
        (TIMM_RESNET, "hf"),
    ],
)
def test_features_after_loading_back_are_the_checkpoint_s(make_run: MakeRun, overrides: list[str], fmt: str) -> None:
    folder = make_run(*overrides)
    card_file, card = export_run(folder, fmt)
    images = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        expected = open_run(folder).model(images)["feats"]
        assert torch.allclose(load_exported(card_file)(images), expected, atol=1e-6)
    assert card["feature_dim"] == expected.shape[1]
    assert card["largest_difference"] <= 1e-6


@pytest.mark.parametrize("overrides", [pytest.param(SMALL_STEM, marks=pytest.mark.slow), []], ids=["small stem", "ViT"])
def test_the_card_s_recipe_needs_nothing_of_this_package(
    make_run: MakeRun, overrides: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    card_file, card = export_run(make_run(*overrides), "timm")
    monkeypatch.chdir(card_file.parent)
    names: dict[str, Any] = {}
    exec("\n".join(card["build"]), names)
    assert not any("radial" in line for line in card["build"])
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(names["model"].eval()(images), load_exported(card_file)(images), atol=1e-6)
    assert card["normalisation"]["mean"] == pytest.approx([0.485, 0.456, 0.406])
    assert card["config"]["method"] == "radialvicreg"
    assert "Radial-VCReg" in card["citation"]


def test_figures_and_weights_of_different_epochs_are_refused_unless_the_weights_are_given_by_name(
    make_run: MakeRun, make_older_weights: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(epochs=2, radii={"final": {"eval": {"w1_chi": 0.1}, "batch": {}}})
    older = make_older_weights(folder)
    for given in (folder, folder / "checkpoints" / "last.ckpt"):
        assert main(["export", str(given), "--format", "timm"]) == 2
        one_line(capsys.readouterr().err, "results of epoch 2", "weights of epoch 1", "ckpt=auto", str(older))
    assert not (folder / "export").exists()
    assert main(["export", str(older), "--format", "timm"]) == 0
    assert "the card has no results: the run has none of epoch 1" in capsys.readouterr().out
    card = read_card(folder / "export" / "timm" / "card.json")
    assert card["metrics"] == {"probes": None, "radii": None}
    assert (card["training"]["epoch"], card["training"]["status"], card["training"]["seed"]) == (1, None, 5)


def test_figures_stand_on_the_card_of_their_own_weights_however_these_are_named(
    make_run: MakeRun, tmp_path: Path
) -> None:
    folder = make_run(epochs=2)
    weights = (folder / "checkpoints" / "last.ckpt").rename(folder / "checkpoints" / "epoch-2.ckpt")
    (folder / "checkpoints" / "last.ckpt").symlink_to("epoch-2.ckpt")
    cards = [export_run(given, "timm", tmp_path / "out")[1] for given in (folder, weights)]
    assert [card["metrics"]["probes"] for card in cards] == [{"p": {"top1": 9.0}}] * 2
    assert [(card["training"]["epoch"], card["training"]["status"]) for card in cards] == [(2, "finished")] * 2


def test_a_checkpoint_that_was_written_before_its_link_is_the_newest(
    make_run: MakeRun, make_older_weights: Callable
) -> None:
    """The process was killed in between: ``last.ckpt`` still leads to the epoch before."""
    folder = make_run(epochs=2)
    newest = folder / "epoch-2.ckpt"
    (folder / "checkpoints" / "last.ckpt").rename(newest)
    make_older_weights(folder)
    newest.rename(folder / "checkpoints" / "epoch-2.ckpt")
    assert export_run(folder, "timm")[1]["training"]["epoch"] == 2


def test_an_export_that_was_killed_between_card_and_weights_is_made_again(
    make_run: MakeRun, tiny_overrides: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_run()
    _, before = export_run(folder, "timm")
    write_checkpoint(folder / "checkpoints" / "last.ckpt", composed("radialvicreg", *tiny_overrides))
    write_json = writing.write_json

    def killed(*card: Any) -> None:
        write_json(*card)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(writing, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            export_run(folder, "timm")
    card_file, card = export_run(folder, "timm")
    assert card.keys() == read_card(card_file).keys() == before.keys()
    assert card["sha256"] != before["sha256"]


def test_other_weights_beside_a_card_are_refused(make_run: MakeRun) -> None:
    card_file, card = export_run(make_run(), "timm")
    torch.save({}, card_file.parent / card["weights"])
    with pytest.raises(ValueError, match="different SHA-256"):
        load_exported(card_file)


def test_an_export_with_other_features_is_refused_and_leaves_nothing(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = writing._serialise
    monkeypatch.setattr(
        writing, "_serialise", lambda state, *rest: real({k: 1.01 * v for k, v in state.items()}, *rest)
    )
    folder = make_run()
    for fmt in ("timm", "safetensors", "hf"):
        with pytest.raises(UserError, match=r"features differ by 0\.\d+ after loading the export back"):
            export_run(folder, fmt)
        assert list((folder / "export" / fmt).iterdir()) == []


def test_what_timm_makes_of_an_export_is_compared_too(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    load = hub.load_with_timm
    monkeypatch.setattr(
        hub, "load_with_timm", lambda *arguments: torch.nn.Sequential(load(*arguments), torch.nn.ReLU())
    )
    folder = make_run()
    with pytest.raises(UserError, match="features differ"):
        export_run(folder, "hf")
    assert not (folder / "export" / "hf" / "card.json").exists()


def test_weights_that_are_not_numbers_are_not_exported(make_run: MakeRun, tiny_overrides: list[str]) -> None:
    folder, bias = make_run(), torch.full((24,), float("nan"))
    cfg = composed("radialvicreg", *tiny_overrides)
    write_checkpoint(folder / "checkpoints" / "last.ckpt", cfg, **{"backbone.norm.bias": bias})
    with pytest.raises(UserError, match="features differ by nan"):
        export_run(folder, "timm")
    assert not (folder / "export" / "timm" / "card.json").exists()


def test_a_card_of_a_run_without_results_holds_no_secret(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "0123456789abcdef0123456789abcdef"
    folder = make_run()
    config = read_results(folder)["config"]
    config["note"] = "${oc.env:MY_TOKEN}"  # as solo-learn's args.json keeps it
    config["wandb"]["entity"] = config["data"]["name"] = key
    (folder / "args.json").write_text(json.dumps(config))
    (folder / "results.json").unlink()
    monkeypatch.setenv("MY_TOKEN", key)
    for fmt in ("timm", "hf"):
        card_file, card = export_run(folder, fmt)
        assert card["config"]["wandb"]["entity"] == card["config"]["data"]["name"] == HIDDEN
        assert not [file.name for file in card_file.parent.iterdir() if key.encode() in file.read_bytes()]
    text = (card_file.parent / "README.md").read_text()
    assert "The run has no measurement of the embeddings of these weights." in text
    assert "None" not in text


def test_a_vit_has_no_torchvision_form(make_run: MakeRun) -> None:
    with pytest.raises(UserError, match="torchvision has no vit_tiny; use --format timm, safetensors or hf"):
        export_run(make_run(), "torchvision")


# ---- the Hub

local_dir = pytest.mark.skipif(version(timm.__version__) < version("1.0.16"), reason="local-dir: is timm 1.0.16's")
hf_hub = pytest.mark.skipif(not timm.models._hub.has_hf_hub(), reason="this timm knows an older huggingface_hub only")


@pytest.fixture(params=[pytest.param("local-dir", marks=local_dir), pytest.param("hf-hub", marks=hf_hub)])
def name_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], str]:
    """Gives the name by which timm finds a folder: as such, or as if it had been uploaded."""

    def name(folder: Path) -> str:
        if request.param == "local-dir":
            return f"local-dir:{folder}"

        def download(repo_id: str, filename: str, **_: object) -> str:
            assert repo_id == "somebody/something"
            return str(folder / filename)

        monkeypatch.setattr("timm.models._hub.hf_hub_download", download)
        return "hf-hub:somebody/something"

    return name


@pytest.fixture
def photograph(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (110, 150, 3), dtype=np.uint8)
    file = tmp_path / "image.png"
    Image.fromarray(pixels).save(file)
    return file


@pytest.mark.parametrize(
    ("overrides", "size"),
    [([], 32), ([], 96), pytest.param(RESNET, 96, marks=pytest.mark.slow)],
    ids=["ViT", "ViT 96", "ResNet"],
)
def test_the_model_cards_lines_for_timm_give_the_runs_features_and_a_new_classifier_fits_on_them(
    make_run: MakeRun,
    name_of: Callable[[Path], str],
    overrides: list[str],
    size: int,
    photograph: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = open_run(make_run(*overrides, f"augment.crop_size={size}"))
    folder = export_run(run.folder, "hf")[0].parent
    monkeypatch.chdir(photograph.parent)
    names: dict[str, Any] = {}
    (code, *_) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    exec(code.replace("hf-hub:OWNER/NAME", name_of(folder)), names)
    image = open_data(run.config).val_transform()(Image.open(photograph))
    assert torch.equal(names["transform"](Image.open(photograph)), image)
    model = timm.create_model(name_of(folder), pretrained=True, num_classes=10).eval()
    with torch.no_grad():
        expected = run.model(image[None])["feats"]
        assert torch.allclose(names["features"], expected, atol=1e-6)
        assert model(image[None]).shape == (1, 10)
        found = model.forward_head(model.forward_features(image[None]), pre_logits=True)
        assert torch.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        pytest.param(SMALL_STEM, "the small-image stem", marks=pytest.mark.slow),
        ([*RESNET, "+backbone.kwargs={zero_init_residual:true}"], r"the arguments \{'zero_init_residual': True\}"),
    ],
    ids=["small stem", "torchvision's arguments"],
)
def test_a_network_that_timm_does_not_have_is_refused_and_leaves_nothing(
    make_run: MakeRun, overrides: list[str], what: str
) -> None:
    folder = make_run(*overrides)
    with pytest.raises(UserError, match=f"has no resnet18 with {what}; use --format safetensors"):
        export_run(folder, "hf")
    assert not (folder / "export").exists()


def test_the_model_card_says_data_method_and_figures_and_leaves_the_license(make_run: MakeRun) -> None:
    radii = {"w1_chi": 0.125, "radius_mean": 3.9, "radius_std": 0.7}
    means = {"balanced_accuracy": 71.0, "accuracy": 81.0, "auroc": 75.5, "average_precision": 40.25}
    attributes = {**means, "per_attribute": {name: [value, None] for name, value in means.items()}}
    folder = make_run(
        "data.name=pictures",
        probes={
            "online_linear": {"top1": 61.5, "top5": None},
            "frozen_linear": {"trained": {"top1": 70}},
            "online_mlp": attributes,
        },
        radii={"final": {"epoch": 1, "eval": radii, "batch": {}}},
    )
    text = (export_run(folder, "hf")[0].parent / "README.md").read_text()
    metadata = ModelCard(text).data
    assert metadata.library_name == "timm"
    assert metadata.pipeline_tag == "image-feature-extraction"
    assert metadata.license is None
    for row in (
        "| data | pictures |",
        "| radial_ce_loss_weight | 100 |",
        "| online_linear | top1 61.50 |",
        "| frozen_linear, trained | top1 70.00 |",
        "| online_mlp | balanced_accuracy 71.00, accuracy 81.00, auroc 75.50, average_precision 40.25 |",
        "| eval | 0.125 | 3.900 | 0.700 |",
    ):
        assert f"{row}\n" in text
    assert "| batch |" not in text
    assert "per_attribute" not in text
    assert "## License\n\nTo fill in" in text
    assert "Radial-VCReg" in text.split("## Citation")[1]


def test_the_model_card_of_a_trained_run_has_the_figures_of_its_probes(
    finished_run: Callable[[str], Path], tmp_path: Path
) -> None:
    """A run writes where a figure comes from next to it, which is no figure."""
    run = finished_run("standalone")
    text = (export_run(run, "hf", tmp_path / "out")[0].parent / "README.md").read_text()
    found = read_results(run)["probes"]
    assert "origin" in found["online_mlp"]
    for name, figures in (
        ("online_mlp", found["online_mlp"]),
        ("frozen_linear, trained", found["frozen_linear"]["trained"]),
    ):
        assert f"| {name} | top1 {figures['top1']:.2f}, top5 {figures['top5']:.2f} |\n" in text


def test_the_model_card_names_a_method_with_a_loss_of_its_own(make_run: MakeRun) -> None:
    own = ["radialvicreg/method=own", "method=a|b", "loss._target_=nowhere.Loss", "+loss.temperature=0.25"]
    card_file, card = export_run(make_run(*own, probes=None), "hf")
    text = (card_file.parent / "README.md").read_text()
    assert "| method | `a\\|b`, a method with a custom loss |" in text
    assert "| loss | nowhere.Loss |\n| temperature | 0.25 |" in text
    assert "The run has no probe results of these weights." in text
    assert "To fill in: the paper of the method" in text
    with torch.no_grad():
        assert load_exported(card_file)(torch.zeros(1, 3, 32, 32)).shape == (1, card["feature_dim"])


def test_nothing_that_is_published_names_folders_of_this_machine(make_run: MakeRun, tmp_path: Path) -> None:
    folder = make_run("+mine=[/home/me/images,b/c,3]", "tag=${mine.0}")
    card_file, card = export_run(folder, "hf")
    assert card["config"]["data"]["train_path"] == "train"
    assert card["config"]["mine"] == ["images", "b/c", 3]
    for name in ("README.md", "card.json", "config.json"):
        assert str(tmp_path) not in (card_file.parent / name).read_text()
    assert str(tmp_path) in json.loads(export_run(folder, "timm")[0].read_text())["config"]["data"]["train_path"]


def test_what_somebody_has_written_is_not_replaced(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run()
    for name in ("README.md", "config.json"):
        (tmp_path / name).mkdir()
        file = tmp_path / name / name
        file.write_text("license: mine")
        assert main(["export", str(run), "--format", "hf", "--out", str(file.parent)]) == 2
        one_line(capsys.readouterr().err, f"{file} already exists", "--out")
        assert list(file.parent.iterdir()) == [file]
        assert file.read_text() == "license: mine"


def test_the_command_says_where_and_how_it_was_proven_and_how_to_upload(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = make_run(), tmp_path / "my model"
    assert main(["export", str(run), "--format", "safetensors"]) == 0
    assert "identical after loading it back" in capsys.readouterr().out
    assert main(["export", str(run), "--format", "hf", "--out", str(out)]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert "identical after loading it back" in first
    assert last.startswith(f"nothing was uploaded: fill in the license in {out / 'README.md'}, then ")
    assert f"hf upload OWNER/NAME '{out}'" in last
