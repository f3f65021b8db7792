"""The Hydra plug-in, in processes of their own as users meet it."""

from __future__ import annotations

import configparser
import importlib
import inspect
import json
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from helpers import first_on_path
from hydra.plugins.search_path_plugin import SearchPathPlugin

from radial_vicreg.cli.commands import doctor

REPOSITORY = Path(__file__).parents[2]
Run = Callable[..., CompletedProcess[str]]

OTHER_APPLICATION = """
import hydra, json, sys
from omegaconf import OmegaConf

@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    print(json.dumps({"cfg": OmegaConf.to_container(cfg),
                      "torch": "torch" in sys.modules, "solo": "solo" in sys.modules,
                      "ours": sorted(name for name in sys.modules if name.startswith("radial_vicreg"))}))

main()
"""

PLUGIN_ALONE = """
import sys
from hydra import compose, initialize
from hydra.errors import MissingConfigException

def found(name):
    with initialize(version_base=None, config_path=None):
        try:
            return compose(name) is not None
        except MissingConfigException:
            return False

NAMES = ("radialvicreg", "radialvicreg/quickstart", "cifar100/resnet18/vicreg_d512", "cell", "quickstart")
before = [name for name in NAMES if found(name)]
"""


FOUND = ["radialvicreg", "radialvicreg/quickstart", "cifar100/resnet18/vicreg_d512", "cell"]


@pytest.fixture
def other_application(tmp_path: Path) -> Path:
    """An application whose configuration has a group that a release of ours had, too."""
    group = tmp_path / "conf" / "shared" / "optimizer"
    group.mkdir(parents=True)
    (group / "lars.yaml").write_text("mine: true\n")
    (tmp_path / "conf" / "config.yaml").write_text(
        "defaults: [shared/optimizer: lars, _self_]\na: 1\nhydra: {output_subdir: null, run: {dir: .}}\n"
    )
    (tmp_path / "app.py").write_text(OTHER_APPLICATION)
    return tmp_path / "app.py"


def test_other_hydra_applications_read_their_own_groups_and_load_nothing_of_ours(
    run_python: Run, other_application: Path
) -> None:
    (other_application.parent / "radial_vicreg.py").write_text("raise SystemExit('imported')\n")
    done = run_python(str(other_application))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["cfg"] == {"a": 1, "shared": {"optimizer": {"mine": True}}}
    assert (seen["torch"], seen["solo"], seen["ours"]) == (False, False, [])


def test_a_composition_finds_ours_only_after_ours_is_imported(run_python: Run, tmp_path: Path) -> None:
    code = PLUGIN_ALONE + "import radial_vicreg.compose\nprint(before, [name for name in NAMES if found(name)])"
    done = run_python("-c", code)
    assert done.stdout.strip() == f"[] {FOUND}", done.stderr


@pytest.mark.solo
@pytest.mark.slow
def test_a_notebook_finds_ours_only_after_it_imports_solo_learn(run_python: Run) -> None:
    code = PLUGIN_ALONE + (
        "import solo.methods\nprint(before, [name for name in NAMES if found(name)])\n"
        "print('radialvicreg' in solo.methods.METHODS)"
    )
    done = run_python("-c", code)
    assert done.stdout.splitlines() == [f"[] {FOUND}", "True"], done.stderr


@pytest.mark.solo
@pytest.mark.slow
def test_the_processes_of_a_multirun_find_ours(run_python: Run, tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="hydra-joblib-launcher is not installed")
    (tmp_path / "app.py").write_text(
        "import hydra\nfrom solo.methods import METHODS\n@hydra.main(version_base=None)\ndef main(cfg):\n"
        "    print('run', cfg.seed, cfg.optimizer.name, cfg.method in METHODS, flush=True)\nmain()\n"
    )
    swept = ("seed=1,2", "radialvicreg/optimizer=adamw", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    done = run_python("app.py", "--config-name", "radialvicreg", "-m", *swept)
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("run"))
    assert lines == ["run 1 adamw True", "run 2 adamw True"], done.stderr


def test_the_search_path_is_appended_last_so_that_an_applications_own_files_win(
    run_python: Run, other_application: Path
) -> None:
    (other_application.parent / "conf" / "radialvicreg.yaml").write_text("mine: true\n")
    other_application.write_text("import radial_vicreg.compose\n" + OTHER_APPLICATION)
    done = run_python(
        str(other_application), "--config-name", "radialvicreg", "hydra.run.dir=.", "hydra.output_subdir=null"
    )
    assert json.loads(done.stdout)["cfg"] == {"mine": True}


OUR_APPLICATION = """
import hydra, json, radial_vicreg.compose
from omegaconf import OmegaConf

@hydra.main(version_base=None)
def main(cfg):
    print(json.dumps(OmegaConf.to_container(cfg)))

main()
"""


def test_ours_leave_no_outputs_folder_and_no_log_file(run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(OUR_APPLICATION)
    done = run_python("app.py", "--config-name", "radialvicreg", "max_epochs=7", "data.train_path=a")
    assert json.loads(done.stdout)["max_epochs"] == 7, done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["app.py"]


def test_the_entry_point_of_hydra_1_4_is_the_plugins_class() -> None:
    """A module there makes Hydra 1.4 warn in every application of the environment and load nothing."""
    setup = configparser.ConfigParser()
    setup.read(REPOSITORY / "setup.cfg")
    name, _, value = setup["options.entry_points"]["hydra.plugins"].strip().partition(" = ")
    point = EntryPoint(name, value, "hydra.plugins").load()
    assert issubclass(point, SearchPathPlugin)
    assert not inspect.isabstract(point)


def package_and_application(folder: Path) -> tuple[Path, str]:
    """A package of our name with a composition and nothing else, and an application that composes with it."""
    package = folder / "radial_vicreg"
    (package / "compose").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "compose" / "__init__.py").touch()
    (folder / "app.py").write_text(OUR_APPLICATION)
    return package, str(folder / "app.py")


def test_the_configurations_are_found_in_a_folder_of_any_name(run_python: Run, tmp_path: Path) -> None:
    folder = tmp_path / "a blank, 50%20 a=b #1 größe it's"
    package, application = package_and_application(folder)
    (package / "yaml" / "group").mkdir(parents=True)
    (package / "yaml" / "mine.yaml").write_text("defaults: [group: one]\nfound: true\n")
    (package / "yaml" / "group" / "one.yaml").write_text("b: 2\n")
    done = run_python(application, "--config-name", "mine", PYTHONPATH=first_on_path(folder))
    assert json.loads(done.stdout) == {"group": {"b": 2}, "found": True}, done.stderr


def test_a_missing_configuration_folder_stops_no_application_and_is_named_where_it_is_needed(
    run_python: Run, tmp_path: Path
) -> None:
    package, application = package_and_application(tmp_path)
    done = run_python(application, "+a=1", PYTHONPATH=first_on_path(tmp_path))
    assert json.loads(done.stdout) == {"a": 1}, done.stderr
    wanted = run_python(application, "--config-name", "radialvicreg", PYTHONPATH=first_on_path(tmp_path))
    assert wanted.returncode == 1
    assert f"provider=radial-vicreg, path=file://{package / 'yaml'}" in wanted.stderr


@pytest.mark.slow
def test_the_losses_import_no_more_than_torch_numpy_and_scipy(run_python: Run) -> None:
    code = (
        "import sys, radial_vicreg.losses; "
        "print([m for m in ('lightning', 'timm', 'torchvision', 'hydra', 'matplotlib', 'sklearn') if m in sys.modules])"
    )
    assert run_python("-c", code).stdout.strip() == "[]"


def test_doctor_counts_the_configurations_and_tells_when_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert doctor._plugin() == f"found, {len(list(REPOSITORY.glob('yaml/**/*.yaml')))} configurations"
    plugin = importlib.import_module("hydra_plugins.radial_vicreg_plugin")
    monkeypatch.setattr(plugin, "configuration_folder", lambda: str(tmp_path / "gone"))
    assert f"no configurations in {tmp_path / 'gone'}: reinstall" in doctor._plugin()
