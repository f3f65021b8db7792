"""An objective and a term that any objective may have are added as docs/architecture.md says, in a copy of the package.

What is missing is named by a test.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]

# Edits: after "=== FILE", what is written before the lines of the file that ">" marks.
DECLARATION = r'''
=== radial_vicreg/names/terms.py
    RadialObjective(
        "toy",
        "Radial-VICReg toy",
        (
            Term(
                "radial_toy",
                Key("radial_toy_loss_weight", 1.0, "weight of the toy", low=0),
                "toy_loss",
                r"\frac1N\sum_i(\|z_i\|-1)^2",
                symbol="toy",
                label="toy",
                reads=(Key("radial_toy_halved", False, "half of it"),),
            ),
        ),
    ),
>    RadialObjective("none", "VICReg"),
    Term(
        "drift",
        Key("drift_loss_weight", 0.0, "weight of the drift, with any radial objective", low=0),
        "drift_loss",
        r"\frac1d\sum_jm_j^4",
        symbol="drift",
        label="drift",
        reads=(Key("drift_doubled", False, "twice of it"),),
    ),
>)
>"""Terms that are read whatever the radial objective.
'''
FUNCTION = r'''
=== radial_vicreg/losses/radial.py
def toy_loss(z: Tensor, halved: bool = False) -> Tensor:
    r"""Squared distance of the radii from 1.

    :math:`\frac1N\sum_i(\|z_i\|-1)^2`.
    """
    z = checked_view(z)
    with full_precision(z):
        return toy_of(squared_norms(z).sqrt(), halved)


def toy_of(radii: Tensor, halved: bool) -> Tensor:
    return (radii - 1).square().mean() * (0.5 if halved else 1.0)


>def squared_norms(z: Tensor)
=== radial_vicreg/losses/mean.py
def drift_loss(z: Tensor, doubled: bool = False) -> Tensor:
    r"""Fourth power of the batch mean.

    :math:`\frac1d\sum_jm_j^4`.
    """
    z = checked_view(z)
    with full_precision(z):
        return drift_of(z, doubled)


def drift_of(z: Tensor, doubled: bool) -> Tensor:
    return z.mean(dim=0).pow(4).mean() * (2.0 if doubled else 1.0)


>def mean_loss_of(
=== radial_vicreg/losses/__init__.py
from radial_vicreg.losses.mean import drift_loss
from radial_vicreg.losses.radial import toy_loss
>from radial_vicreg.losses.mean import
    "toy_loss",
    "drift_loss",
>    "variance_loss",
=== radial_vicreg/losses/objective.py
from radial_vicreg.losses.mean import drift_of
from radial_vicreg.losses.radial import toy_of
>from radial_vicreg.losses.mean import
    - ``radial_toy``: twice the mean over the views, present when that objective is chosen.
    - ``drift``: twice the mean over the views, present when its weight is positive.
>    - ``e2mc``: twice
        radial_toy_loss_weight: of the toy.
        radial_toy_halved: half of it.
>        e2mc_loss_weight: of E2MC,
        drift_loss_weight: of the drift.
        drift_doubled: twice of it.
>        radial_center: take the radii
        radial_toy_loss_weight: float = 1.0,
        radial_toy_halved: bool = False,
>        e2mc_loss_weight: float
        drift_loss_weight: float = 0.0,
        drift_doubled: bool = False,
>        radial_center: bool
        self.radial_toy_loss_weight = checked_setting("radial_toy_loss_weight", radial_toy_loss_weight)
        self.radial_toy_halved = checked_setting("radial_toy_halved", radial_toy_halved)
        self.drift_loss_weight = checked_setting("drift_loss_weight", drift_loss_weight)
        self.drift_doubled = checked_setting("drift_doubled", drift_doubled)
>        self.radial_center =
        elif self.radial_objective == "toy":
            terms = {"radial_toy": 2 * toy_of(ordered, self.radial_toy_halved)}
            terms["radial_loss"] = self.radial_toy_loss_weight * terms["radial_toy"]
>        else:
>            terms = {"radial_loss": ordered.new_zeros(())}
            if self.drift_loss_weight > 0:
                batches = gathered_views(views) if gather else views
                terms["drift"] = twice_the_mean([drift_of(z, self.drift_doubled) for z in batches])
                terms["loss"] = terms["loss"] + self.drift_loss_weight * terms["drift"]
>        if is_transformed():
'''
DEFINITION_AND_PAGES = r"""
=== tests/objectives.py
    "radial_toy": lambda batch: two_means(
        lambda z: losses.toy_loss(z, batch.loss.radial_toy_halved), batch.seen
    ),
    "drift": lambda batch: two_means(
        lambda z: losses.drift_loss(z, batch.loss.drift_doubled), batch.views
    ),
>    "e2mc": lambda
=== yaml/radialvicreg/method/radialvicreg.yaml
  radial_toy_loss_weight: 1.0   # with radial_objective: toy
  radial_toy_halved: false
  drift_loss_weight: 0.0
  drift_doubled: false
>  e2mc_loss_weight: 0.0
=== docs/names.md
| `radial_toy_loss_weight` | | 1 | `train_radial_toy_epoch` |
| `radial_toy_halved` | | false | |
| `drift_loss_weight` | | 0 | `train_drift_epoch` |
| `drift_doubled` | | false | |
>| `e2mc_loss_weight`
=== docs/objective.md
| `radial_toy` | `radial_toy_loss_weight` | `toy_loss` | $\frac1N\sum_i(\\|z_i\\|-1)^2$ |
| `drift` | `drift_loss_weight` | `drift_loss` | $\frac1d\sum_jm_j^4$ |
>| `e2mc` |
"""

#: Everything else follows; values and gradients are compared by test_losses_views.py.
FOLLOWS = """
from radial_vicreg.compose import compose, run_config
from radial_vicreg.config.documents import key_tables
from radial_vicreg.figures import method_key, method_styles
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.report.setting import Setting
from radial_vicreg.runs.identity import config_hash
from radial_vicreg.runs.results import RunResults
from radial_vicreg.train.loss import build_objective

TOY = "Radial-VICReg toy"


def config(*changes):
    kwargs = [f"method_kwargs.{change}" for change in ("radial_objective=toy", *changes)]
    return run_config(compose("radialvicreg", ["name=toy", "max_epochs=1", *kwargs]))


def setting(*changes):
    content = {"schema_version": 2, "status": "finished", "config": config(*changes).plain()}
    return Setting.of(RunResults.model_validate(content))


def hashes(*changes):
    return [config_hash(config(*each).plain()) for each in changes]


def test_toy():
    assert "radial_toy_loss_weight` | a finite number, 0 or more | `1` | weight of the toy |" in key_tables()
    heavy, halved = ["radial_toy_loss_weight=50"], ["radial_toy_halved=true"]
    plain, *others, unread = hashes([], heavy, halved, ["radial_ce_loss_weight=3"])
    assert len({plain, *others}) == 3
    assert plain == unread
    assert setting().label == f"{TOY} (toy 1)"
    assert setting(*heavy).label == f"{TOY} (toy 50)"
    assert setting(*halved).details["toy_halved"] is True
    assert setting().key == method_key("toy") == "radial_toy"
    assert method_styles(["radial_toy", "radial_kl"])["radial_toy"].colour
    shown = repr(build_objective(config()))
    assert "radial_toy_loss_weight=1.0, radial_toy_halved=False" in shown
    assert "radial_ce_" not in shown


def test_drift():
    assert "drift_loss_weight` | a finite number, 0 or more | `0` |" in key_tables()
    light, doubled = ["drift_loss_weight=5"], ["drift_loss_weight=5", "drift_doubled=true"]
    plain, *others, unread = hashes([], light, doubled, ["drift_doubled=true"])
    assert len({plain, *others}) == 3
    assert plain == unread
    earlier = config().plain()
    del earlier["method_kwargs"]["drift_loss_weight"], earlier["method_kwargs"]["drift_doubled"]
    assert config_hash(earlier) == plain  # a run of an earlier version keeps its identity
    assert setting(*light).label == f"{TOY} (toy 1) + drift 5"
    assert setting(*doubled).details["drift_doubled"] is True
    assert setting(*light).key == "radial_toy_drift"
    assert method_key("none", drift=True) == "vicreg_drift"
    shown = repr(RadialVICRegLoss(radial_objective="none", drift_loss_weight=3.0))
    assert "drift_loss_weight=3.0, drift_doubled=False" in shown
    assert "drift" not in repr(RadialVICRegLoss())
"""


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of what the recipe and its tests need, with some edits."""

    def make(edits: str) -> Path:
        shutil.copytree(REPOSITORY / "radial_vicreg", tmp_path / "radial_vicreg", symlinks=True)
        for name in ("hydra_plugins", "yaml"):
            shutil.copytree(REPOSITORY / name, tmp_path / name)
        for name in ("losses", "golden"):
            (tmp_path / "tests" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs").mkdir()
        files = ["pyproject.toml", "docs/names.md", "docs/objective.md", "tests/golden/losses.json"]
        files += [str(file.relative_to(REPOSITORY)) for file in (REPOSITORY / "tests").glob("*.py")]
        files += [f"tests/losses/{name}.py" for name in ("conftest", "test_terms", "test_losses_views")]
        for name in files:
            shutil.copy(REPOSITORY / name, tmp_path / name)
        for of_file in edits.split("\n=== ")[1:]:
            name, _, rest = of_file.partition("\n")
            content = (tmp_path / name).read_text(encoding="utf-8")
            for text, marked in re.findall(r"((?:[^>\n].*\n|\n)+)((?:>.*\n?)+)", rest):
                place = re.sub("^>", "", marked, flags=re.MULTILINE).rstrip("\n")
                assert content.count(f"\n{place}") == 1, f"{name}: {content.count(place)} times {place!r}"
                content = content.replace(f"\n{place}", f"\n{text}{place}")
            (tmp_path / name).write_text(content, encoding="utf-8")
        return tmp_path

    return make


def answer(place: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and output of pytest in a copy."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{place / 'tests'}"}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


def test_a_term_is_a_declaration_a_function_and_a_definition(
    copy: Callable[[str], Path],
) -> None:
    place = copy(DECLARATION + FUNCTION + DEFINITION_AND_PAGES)
    (place / "tests" / "losses" / "test_toy.py").write_text(FOLLOWS)
    status, output = answer(place, "tests/losses", "-k", "toy or drift or test_terms")
    assert status == 0, output
    assert int(re.findall(r"(\d+) passed", output)[0]) > 80


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        (
            DECLARATION,
            [
                "radial_toy is declared, and radial_vicreg.losses has no toy_loss",
                "drift is declared, and tests/objectives.py defines no such term",
                "RadialVICRegLoss takes no radial_toy_loss_weight, radial_toy_halved, drift_loss_weight, drift_doubled,"
                " which radial_vicreg/names/terms.py declares",
                "yaml/radialvicreg/method/radialvicreg.yaml has no radial_toy_loss_weight",
                "docs/names.md has 0 rows for drift_loss_weight",
                "docs/objective.md lacks the row | `radial_toy` | `radial_toy_loss_weight` | `toy_loss` |",
            ],
        ),
        (
            FUNCTION,
            [
                "drift_loss, toy_loss: radial_vicreg/names/terms.py declares no term with this function",
                "radial_vicreg/names/terms.py declares no radial_toy_loss_weight, radial_toy_halved, "
                "drift_loss_weight, drift_doubled, which RadialVICRegLoss takes",
            ],
        ),
    ],
    ids=["declaration", "function"],
)
def test_one_of_them_alone_is_refused(edits: str, told: list[str], copy: Callable[[str], Path]) -> None:
    # The fixtures of all tests would load Lightning, for which these tests have no use.
    status, output = answer(copy(edits), "tests/losses/test_terms.py", "--tb=line", "--noconftest")
    assert status == 1, output
    assert [missing for missing in told if missing not in output] == [], output
