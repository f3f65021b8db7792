"""Cloud mounts and shares: without links, permissions or renaming, a run is whole or refused before it begins."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import HOSTS, RUN_COMMANDS, assert_equal, on_a_mount, one_line, only_run, results_of, weights_of

from radial_vicreg import cli
from radial_vicreg.compose import compose, run_config
from radial_vicreg.errors import UserError
from radial_vicreg.io.file_systems import ABILITIES, file_system_of, try_folder
from radial_vicreg.runs.checkpoints import find_checkpoint, leads_to, link_last, named_checkpoint, read_checkpoint
from radial_vicreg.runs.loaded import open_run
from radial_vicreg.train import run as train

Refuse = Callable[..., None]

#: The calls that a mount answers with an error, by the ability that it lacks.
CALLS = {"rename": ["replace", "rename"], "links": ["symlink"], "modes": ["chmod"]}


def fails_with(number: int) -> Callable[..., None]:
    def fail(*arguments: Any, **_: Any) -> None:
        raise OSError(number, os.strerror(number), str(arguments[0]))

    return fail


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Lets the system's calls of an ability fail, as on a mount that lacks it."""

    def forbid(ability: str, number: int = errno.ENOSYS) -> None:
        for call in CALLS[ability]:
            monkeypatch.setattr(os, call, fails_with(number))

    return forbid


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("function", "instead", "missing"),
    [
        ("os.replace", fails_with(errno.ENOSYS), {"rename": "Function not implemented"}),
        ("os.rename", fails_with(errno.EIO), {"folders": "Input/output error"}),
        ("os.symlink", fails_with(errno.EPERM), {"links": "Operation not permitted"}),
        ("os.symlink", lambda name, link, **_: Path(link).touch(), {"links": "a link does not resolve to its file"}),
        ("os.chmod", fails_with(errno.ENOTSUP), {"modes": "Operation not supported"}),
        ("os.chmod", lambda *_, **__: None, {"modes": "a change has no effect"}),  # FAT
        ("fcntl.flock", fails_with(errno.ENOSYS), {"locks": "Function not implemented"}),
    ],
)
def test_a_trial_finds_what_a_folder_lacks_and_leaves_nothing(
    function: str, instead: Any, missing: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dict(try_folder(tmp_path).refused) == {}
    monkeypatch.setattr(function, instead)
    assert dict(try_folder(tmp_path).refused) == missing
    assert files_below(tmp_path) == []
    assert set(try_folder(tmp_path / "gone").refused) == {"write"}


def test_a_trial_that_was_good_is_not_repeated_and_one_that_was_not_is(tmp_path: Path, refuse: Refuse) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", os.link)  # refuses a name that is taken
        assert "rename" in file_system_of(tmp_path).refused
    first = file_system_of(tmp_path)
    assert first.problem is None
    refuse("rename")
    assert file_system_of(tmp_path) is first


def test_doctor_prints_what_a_place_can_do_and_what_follows(
    tmp_path: Path, refuse: Refuse, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["doctor", "--at", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.endswith("  yes")] == lines[: len(ABILITIES)]
    assert lines[-1] == f"Runs can be written to {tmp_path}."
    refuse("links")
    refuse("modes", errno.EPERM)
    assert cli.main(["doctor", "--at", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "no (Function not implemented): last.ckpt is a small file with the checkpoint's name" in said
    assert "no (Operation not permitted): files have the file system's permissions" in said
    refuse("rename")
    assert cli.main(["doctor", "--at", str(tmp_path)]) == 1
    assert capsys.readouterr().out.endswith(
        f"No run can be written to {tmp_path}: train on a local disk and copy the finished run there.\n"
    )
    assert cli.main(["doctor", "--at", str(tmp_path / "gone")]) == 2
    one_line(capsys.readouterr().err, "gone is not a folder")


class TestWithoutRenaming:
    @pytest.mark.parametrize("command", ["pretrain", "report", "data digits"])
    def test_every_command_is_refused_in_one_line_before_its_work(
        self,
        command: str,
        tiny_overrides: list[str],
        tmp_path: Path,
        refuse: Refuse,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def begun(*_: Any, **__: Any) -> None:
            raise AssertionError("images were read before the place was tried")

        monkeypatch.setattr(train, "open_data", begun)
        monkeypatch.setattr("radial_vicreg.data.prepare.digits.load_digits", begun)
        place = tmp_path / "mount"
        place.mkdir()
        arguments = {
            "pretrain": [*tiny_overrides, "host=standalone", f"runs_dir={place / 'runs'}"],
            "report": [str(tmp_path), "--out", str(place / "report")],
        }.get(command.split()[0], ["--out", str(place / "out")])
        refuse("rename")
        assert cli.main([*command.split(), *arguments]) == 2
        elsewhere = "train on a local disk and copy the finished run" if "pretrain" in command else "write to a local"
        said = capsys.readouterr().err
        one_line(said, f"{place} does not allow replacing a file (Function not implemented)", elsewhere)
        assert files_below(place) == []

    def test_a_run_that_resumes_elsewhere_is_refused_where_it_claims_its_folder(
        self, tmp_path: Path, refuse: Refuse
    ) -> None:
        """Under ``main_pretrain.py``, and with ``ckpt=PATH`` in a folder that is not below ``runs_dir``."""
        import lightning.pytorch as pl

        from radial_vicreg.train.callbacks.record import ResultsWriter

        folder = tmp_path / "elsewhere"
        folder.mkdir()
        refuse("rename")
        writer = ResultsWriter(run_config(compose("radialvicreg", [])).plain(), "standalone", folder)
        with pytest.raises(UserError, match=r"does not allow replacing a file .*; train on a local disk"):
            writer.on_train_start(pl.Trainer(logger=False, accelerator="cpu"), pl.LightningModule())
        assert files_below(folder) == []


@pytest.fixture
def pointed(finished_run: Callable[[str], Path], tmp_path: Path) -> Path:
    """The ``last.ckpt`` of a copied run as a file system without links has it."""
    run = Path(shutil.copytree(finished_run("standalone"), tmp_path / "run", symlinks=True))
    last = run / "checkpoints" / "last.ckpt"
    last.unlink()
    last.write_text("epoch-2.ckpt\n")
    return last


class TestASmallFileNamesTheCheckpoint:
    def test_every_reader_follows_it(self, pointed: Path, tmp_path: Path) -> None:
        newest, run = pointed.with_name("epoch-2.ckpt"), pointed.parents[1]
        assert find_checkpoint(run) == find_checkpoint(pointed) == named_checkpoint(pointed) == newest
        assert read_checkpoint(pointed)["epoch"] == 1
        assert open_run(pointed).checkpoint == open_run(run).checkpoint == newest
        as_the_script_leaves_them = tmp_path / "solo"
        as_the_script_leaves_them.mkdir()
        for file in (pointed, newest):
            shutil.copy(file, as_the_script_leaves_them)
        assert find_checkpoint(as_the_script_leaves_them) == as_the_script_leaves_them / newest.name
        for end in (b"", b"\r\n"):  # Git on Windows makes a file of a link, without an end
            pointed.write_bytes(b"epoch-2.ckpt" + end)
            assert find_checkpoint(pointed) == newest

    def test_nothing_else_is_taken_for_a_name(self, pointed: Path) -> None:
        for content in (b"../epoch-2.ckpt", b"/epoch-2.ckpt", b"last.ckpt", b"epoch-2", b"a\nb.ckpt"):
            pointed.write_bytes(content)
            assert leads_to(pointed) is None
            with pytest.raises(UserError, match=r"last\.ckpt cannot be read"):
                read_checkpoint(pointed)
        shutil.copy(pointed.with_name("epoch-1.ckpt"), pointed)  # a copy that follows links
        assert leads_to(pointed) is None
        assert read_checkpoint(pointed)["epoch"] == 0

    def test_of_two_the_further_checkpoint_counts(self, pointed: Path) -> None:
        pointed.write_text("epoch-1.ckpt\n")  # the process was killed before it wrote the name of the next
        assert find_checkpoint(pointed.parents[1]).name == "epoch-2.ckpt"

    @pytest.mark.parametrize("how", ["names", "is a link to"])
    def test_a_checkpoint_that_is_gone_gives_way_to_one_beside_it(
        self, how: str, pointed: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        if how == "names":
            pointed.write_text("epoch-9.ckpt\n")
        else:
            pointed.unlink()
            pointed.symlink_to("epoch-9.ckpt")
        for given in (pointed, pointed.parents[1]):
            assert find_checkpoint(given).name == "epoch-2.ckpt"
        gone = f"last.ckpt {how} epoch-9.ckpt, which does not exist"
        assert f"{gone}: using epoch-2.ckpt" in capsys.readouterr().out
        for file in pointed.parent.glob("epoch-*.ckpt"):
            file.write_bytes(b"")
        with pytest.raises(UserError, match=f"{gone}, and no other checkpoint"):
            find_checkpoint(pointed)

    def test_it_is_written_where_there_are_no_links_and_a_link_where_there_are(
        self, pointed: Path, tmp_path: Path, refuse: Refuse
    ) -> None:
        link_last(pointed.with_name("epoch-1.ckpt"))
        assert os.readlink(pointed) == "epoch-1.ckpt"
        last = tmp_path / "other" / "last.ckpt"
        last.parent.mkdir()
        refuse("links")
        for number in (1, 2):
            link_last(last.with_name(f"epoch-{number}.ckpt"))
            assert last.read_text() == f"epoch-{number}.ckpt\n"
        assert files_below(last.parent) == ["last.ckpt"]


@pytest.mark.slow
@pytest.mark.parametrize("host", HOSTS)
def test_a_run_without_links_ends_and_resumes_as_any_other(
    host: str, tiny_overrides: list[str], tmp_path: Path, refuse: Refuse
) -> None:
    settings = ["pretrain", *tiny_overrides, f"host={host}", "diagnostics.enabled=false"]
    refuse("links")
    assert cli.main(settings) == 0
    run = only_run(tmp_path / "runs")
    last = run / "checkpoints" / "last.ckpt"
    assert last.read_text() == "epoch-2.ckpt\n"
    assert not (tmp_path / "runs" / "latest").exists()
    expected = results_of(run), weights_of(run)
    (last.with_name("epoch-2.ckpt")).unlink()
    last.write_text("epoch-1.ckpt\n")
    assert cli.main([*settings, f"ckpt='{last}'"]) == 0
    assert last.read_text() == "epoch-2.ckpt\n"
    assert only_run(tmp_path / "runs") == run
    assert_equal((results_of(run), weights_of(run)), expected, "resumed")


#: Real file systems without an ability: exFAT has no symbolic links, and bindfs can refuse the other two.
EXFAT = """
truncate -s 64M "$folder/disk" && mkfs.exfat "$folder/disk" >/dev/null && loop=$(losetup -f --show "$folder/disk") &&
mount.exfat-fuse "$loop" "$mount" 2>&1
"""
BINDFS = """
mkdir "$folder/below" "$folder/second" "$folder/below_second" && bindfs --chmod-deny "$folder/below" "$mount" &&
bindfs --rename-deny "$folder/below_second" "$folder/second"
"""


@pytest.mark.slow
class TestOnARealMount:
    """They skip where the tools are not installed or nothing may be mounted."""

    def test_without_links_a_run_ends_resumes_and_is_read(self, tiny_overrides: list[str], tmp_path: Path) -> None:
        settings = " ".join([*tiny_overrides, "host=standalone", "seed=7"])
        commands = f"""
doctor --at $mount
pretrain {settings} runs_dir=$mount/runs
! cat $mount/runs/*/*/checkpoints/last.ckpt >names; rm $mount/runs/*/*/checkpoints/epoch-2.ckpt
pretrain {settings} runs_dir=$mount/runs ckpt=auto
probe $mount/runs --probe knn
export $mount/runs --format timm
! cp -r $mount/runs copy
"""
        done = on_a_mount(EXFAT, RUN_COMMANDS, tmp_path, commands=commands)
        assert (tmp_path / "statuses").read_text().split() == ["0"] * 5, done.stderr
        said = (tmp_path / "said").read_text()
        assert "symbolic links        no (Function not implemented): last.ckpt is a small file" in said
        assert "replacing a file      yes" in said
        assert "resuming from" in said
        assert (tmp_path / "names").read_text() == "epoch-2.ckpt\n"
        assert results_of(only_run(tmp_path / "copy"))["status"] == "finished"
        assert find_checkpoint(only_run(tmp_path / "copy")).name == "epoch-2.ckpt"

    def test_without_permissions_all_is_written_and_without_renaming_nothing(
        self, tiny_overrides: list[str], tmp_path: Path
    ) -> None:
        run = f"pretrain {' '.join(tiny_overrides)} host=standalone"
        commands = f"""
doctor --at $mount
data digits --out $mount/digits
{run} runs_dir=$mount/runs
{run} runs_dir=$folder/second/runs
! umount $folder/second
"""
        done = on_a_mount(BINDFS, RUN_COMMANDS, tmp_path, commands=commands)
        assert (tmp_path / "statuses").read_text().split() == ["0", "0", "0", "2"], done.stderr
        assert "changing permissions  no (Operation not permitted)" in (tmp_path / "said").read_text()
        assert len(list((tmp_path / "below" / "digits").rglob("*.png"))) == 1797
        assert results_of(only_run(tmp_path / "below" / "runs"))["status"] == "finished"
        assert "does not allow replacing a file (Operation not permitted); train on a local" in done.stderr
        assert files_below(tmp_path / "below_second") == []
