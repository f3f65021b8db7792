"""Whole commands on bad images and with passwords around."""

from __future__ import annotations

import errno
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from configs import make_config
from helpers import HOSTS_SOLO_SLOW, one_line, only_run, read_results
from PIL import Image

from radial_vicreg import cli
from radial_vicreg.errors import UserError
from radial_vicreg.io.secrets import HIDDEN, is_secret, refuse_secrets, without_secrets
from radial_vicreg.runs.provenance import describe_run

QUICK = ["max_epochs=1", "diagnostics.enabled=false"]
KEY = "0123456789abcdef0123456789abcdef01234567"


def with_text(folder: Path) -> str:
    (folder / "0.png").write_text("no image")
    return r"cannot read the image .*class_0/0\.png \(not an image\)"


def with_another_shape(folder: Path) -> str:
    Image.new("RGB", (12, 8)).save(folder / "0.png")
    return r"images of different shapes in one batch \(\[3, 32, .*or set augmentations\.0\.rrc\.enabled=true$"


@pytest.mark.parametrize(
    ("host", "workers"), [("standalone", 0), pytest.param("solo", 2, marks=[pytest.mark.solo, pytest.mark.slow])]
)
@pytest.mark.parametrize("spoil", [with_text, with_another_shape])
def test_a_run_stops_at_an_image_with_one_line(
    spoil: Callable[[Path], str],
    host: str,
    workers: int,
    tiny_overrides: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = spoil(tmp_path / "train" / "class_0")
    settings = [*tiny_overrides, *QUICK, "data.val_path=null", "augmentations.0.rrc.enabled=false"]
    assert cli.main(["pretrain", *settings, f"host={host}", f"data.num_workers={workers}"]) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert re.match(f"radial-vicreg pretrain: error: {said}", line)
    assert "Traceback" not in line + read_results(only_run(tmp_path / "runs"))["error"]


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_a_run_may_leave_out_bad_images_and_counts_them(
    host: str, tiny_overrides: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train" / "class_0" / "0.png").write_bytes(b"?")
    (tmp_path / "train" / "class_2" / "text.jpg").write_text("no image")
    (tmp_path / "val" / "class_1" / "2.png").write_bytes(b"")
    (tmp_path / "train" / "class_1" / "a.gif").touch()
    skipping = [*tiny_overrides, *QUICK, "data.on_bad_image=skip", "probes.frozen_linear=true"]
    assert cli.main(["pretrain", *skipping, f"host={host}"]) == 0
    results = read_results(only_run(tmp_path / "runs"))
    assert results["data"] == {"skipped_images": {"train": 2, "val": 1}, "omitted_files": {"train": {".gif": 1}}}
    assert results["steps"] == 2  # 23 images, batches of 8
    printed = capsys.readouterr().out
    assert "unreadable images skipped: 2 of train (" in printed
    assert "class_1/2.png" in printed
    assert printed.count("omitted 1 file of unsupported types: 1 .gif (a.gif)") == 1


def test_too_many_open_files_end_a_run_with_cause_and_remedy(
    tiny_overrides: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("communication with the workers is gone") from OSError(errno.EMFILE, "?")

    monkeypatch.setattr("lightning.pytorch.Trainer.fit", fails)
    assert cli.main(["pretrain", *tiny_overrides, *QUICK, "host=standalone"]) == 1
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert "too many open files" in line
    assert "ulimit -n" in line
    assert "before the first checkpoint" in line


def test_a_probe_stops_at_a_bad_image_or_leaves_it_out(
    run_folder: Path, image_folder: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    val = image_folder("others", per_class=4)
    (val / "class_0" / "0.png").write_bytes(b"?")
    command = ["probe", str(run_folder), "--probe", "knn", "--val", str(val)]
    assert cli.main(command) == 2
    one_line(capsys.readouterr().err, "class_0/0.png (not an image)")
    assert cli.main([*command, "--on-bad-image", "skip"]) == 0
    assert "on 11 images" in (printed := capsys.readouterr().out)
    assert "1 unreadable image skipped" in printed
    (written,) = run_folder.glob("probes/knn-encoder-images-*.json")  # these are others
    assert json.loads(written.read_text())["skipped_images"] == {"train": 0, "val": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda root: shutil.rmtree(root / "val" / "class_1"), "only in training class_1"),
        (lambda root: [path.unlink() for path in root.glob("train/*/[3-9].png")], "9 images, too few for a batch of"),
    ],
    ids=["other classes", "few images"],
)
def test_a_folder_that_cannot_be_trained_on_is_one_line(
    change: Callable[[Path], Any],
    message: str,
    tiny_overrides: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(tmp_path)
    assert cli.main(["pretrain", *tiny_overrides, "host=standalone", "optimizer.batch_size=10"]) == 2
    assert message in capsys.readouterr().err.strip().splitlines()[-1]
    assert not (tmp_path / "runs").exists()


def files_that_hold(folder: Path, text: str) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_keys_of_the_environment_reach_no_file_and_no_line(
    host: str,
    tiny_overrides: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("HF_TOKEN", "hf_" + KEY)
    # A configuration of somebody else's that copies them.
    stolen = [
        "+note='${oc.env:WANDB_API_KEY} and ${oc.env:HF_TOKEN}'",
        "tag=${note}",
        "wandb.entity=${oc.env:WANDB_API_KEY}",
    ]
    assert cli.main(["pretrain", *tiny_overrides, *QUICK, f"host={host}", *stolen]) == 0
    assert files_that_hold(tmp_path, KEY) == []
    assert KEY not in "".join(capfd.readouterr())
    assert read_results(only_run(tmp_path / "runs"))["config"]["wandb"]["entity"] == HIDDEN


@pytest.mark.slow
def test_w_and_b_s_own_files_hold_no_key(
    tiny_overrides: list[str], tmp_path: Path, run_python: Callable[..., Any]
) -> None:
    pytest.importorskip("wandb")
    settings = [*tiny_overrides, *QUICK, "host=standalone", "wandb.enabled=true", "wandb.offline=true"]
    done = run_python(
        "-m", "radial_vicreg.cli", "pretrain", *settings, "tag='${oc.env:WANDB_API_KEY}'", WANDB_API_KEY=KEY
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert list(tmp_path.rglob("*.wandb"))
    assert files_that_hold(tmp_path, KEY) == []
    assert KEY not in done.stdout + done.stderr


def test_secrets_are_known_by_their_names() -> None:
    for key in ("accessKey", "db_pwd", "DB_PASS", "awsSecretAccessKey", "s3.accessKeys.privateKey", "mySQLPassword"):
        assert is_secret(key), key
        node: Any = KEY
        for name in reversed(key.split(".")):
            node = {name: node}
        with pytest.raises(UserError, match=rf"^{key} looks like a password") as caught:
            refuse_secrets(node)
        assert KEY not in str(caught.value)
    for key in ("keyboard", "monkey", "tokens_per_image", "qkv_bias", "bypass", "keys"):
        refuse_secrets({key: KEY})
        assert not is_secret(key), key


def test_secrets_are_known_by_their_form() -> None:
    for value, kept, what in (
        (f"https://user:{KEY}@host/x", f"https://{HIDDEN}@host/x", "a password in a URL"),
        (f"postgres://u:{KEY[:5]}@h:5432/db", f"postgres://{HIDDEN}@h:5432/db", "a password in a URL"),
        ("hf_" + KEY, HIDDEN, "a token"),
        ("x ghp_" + KEY, f"x {HIDDEN}", "a token"),
        ("AKIA0123456789ABCDEF", HIDDEN, "a token"),
    ):
        assert without_secrets({"a": [value]}) == {"a": [kept]}
        with pytest.raises(UserError, match=rf"^note\.1 contains {what}, and a configuration is copied") as caught:
            refuse_secrets({"note": ["", value]})
        assert value not in str(caught.value)
    refuse_secrets({"path": "https://host/a:b@c", "url": "ssh://git@host:22/x", "sk": "sk-short", "a": "a:b@c"})


def test_long_values_of_secret_variables_are_hidden_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"SOME_KEY": "short", "KEYBOARD": "a long text of no importance", "MY_PASSWORD": KEY}
    for name, value in {**variables, "PWD": "/home/somebody/study", "OLDPWD": "/home/somebody"}.items():
        monkeypatch.setenv(name, value)
    given = {"a": ["short", f"x{KEY}y"], "b": "a long text of no importance", "c": 5, "d": "/home/somebody/study/x"}
    assert without_secrets(given) == {**given, "a": ["short", f"x{HIDDEN}y"]}
    assert describe_run({**make_config().plain(), "name": KEY}, "solo")["name"] == HIDDEN


def test_a_short_password_of_the_environment_is_refused(
    tiny_overrides: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DB_PWD", "hunter2")
    assert cli.main(["pretrain", *tiny_overrides, "tag=${oc.env:DB_PWD}", "--check"]) == 2
    one_line(capsys.readouterr().err, "${oc.env:DB_PWD} looks like a password", "cannot be hidden")
    monkeypatch.setenv("DB_PWD", KEY)
    assert cli.main(["pretrain", *tiny_overrides, "tag=${oc.env:DB_PWD}", "--cfg"]) == 0
    printed = capsys.readouterr().out
    assert f"tag: {HIDDEN}\n" in printed
    assert KEY not in printed


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_no_name_leads_out_of_the_folder_of_the_runs(
    host: str, tiny_overrides: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(tmp_path.parent.iterdir())
    for overrides, message in (
        (["name=../../x"], "name must be"),
        (["method=../x", "name=x"], "method must be a text that is valid as a file name"),
    ):
        assert cli.main(["pretrain", *tiny_overrides, f"host={host}", *overrides]) == 2
        assert message in capsys.readouterr().err
    assert set(tmp_path.parent.iterdir()) == before
    assert not (tmp_path / "runs").exists()
