"""The recipe of docs/architecture.md for a key: one field, added to a copy of the package, and everything follows."""

from __future__ import annotations

import json
import os
import re
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from configs import make_config, plain_config
from helpers import TESTS

import radial_vicreg
from radial_vicreg.runs.identity import config_hash, parts_of_release_0_2

PAGE = TESTS.parent / "docs" / "architecture.md"
OTHERS = {
    "DataConfig": 'bare: Annotated[int, Outside("nothing is trained on it")] = 3',  # without a meaning and a reader
    "OptimizerConfig": 'mood: Annotated[float, Added("0.3")] = Field(0.5, ge=0, le=1, description="of the optimizer")',
    "RunConfig": 'toys: Annotated[bool, Added("0.3"), WhoReads("script", instead="play outside"), Stored()] ='
    ' Field(False, description="name of the run")',
}
"""Other fields that somebody could add, by the class of their section."""


def recipe() -> str:
    """The field, as the page writes it."""
    of_a_key = PAGE.read_text().partition("- **A key**")[2].partition("\n- **")[0]
    (block,) = re.findall(r"```python\n(.*?)```", of_a_key, flags=re.DOTALL)
    return textwrap.dedent(block)


def add(text: str, section: str, field: str) -> str:
    """Put a field under the docstring of its section."""
    added, count = re.subn(
        rf'(class {section}\(\w+\):\n    """.*?"""\n\n)',
        lambda head: head[0] + textwrap.indent(field.strip(), "    ") + "\n",
        text,
        flags=re.DOTALL,
    )
    assert count == 1, section
    return added


@pytest.fixture
def copy_with_the_fields(tmp_path: Path) -> Path:
    package = Path(radial_vicreg.__file__).parent
    shutil.copytree(package, tmp_path / "radial_vicreg", ignore=shutil.ignore_patterns("yaml"))
    config = tmp_path / "radial_vicreg" / "config"
    for section, field in (("DataConfig", recipe()), *OTHERS.items()):
        file = config / ("schema.py" if section == "RunConfig" else "sections.py")
        file.write_text(add(file.read_text(), section, field))
    schema = config / "schema.py"
    schema.write_text(schema.read_text().replace("    ALL,\n", "    ALL,\n    Added,\n", 1))
    return tmp_path


def test_a_key_is_one_field_and_everything_follows(
    copy_with_the_fields: Path, run_python: Callable[..., CompletedProcess[str]]
) -> None:
    before = {"hash": config_hash(plain_config()), "parts of 0.2": parts_of_release_0_2(make_config())}
    asked = ["-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", str(TESTS / "config" / "in_a_copy.py")]
    path = f"{copy_with_the_fields}{os.pathsep}{TESTS}"
    given = {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "BEFORE": json.dumps(before)}
    done = run_python(*asked, **given)
    assert done.returncode == 0, done.stdout
