"""The recipe of docs/architecture.md for a key: one field, added to a copy of the package, and everything follows."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from configs import plain_config

import radial_vicreg
from radial_vicreg.config import read_config
from radial_vicreg.runs.identity import config_hash, parts_of_release_0_2

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
PACKAGE = Path(radial_vicreg.__file__).parent
WHERE_IT_MAY_STAND = {
    "DataConfig": 'bare: Annotated[int, Outside("nothing is trained on it")] = 3',  # without a meaning and a reader
    "OptimizerConfig": 'mood: Annotated[float, Added("0.3")] = Field(0.5, ge=0, le=1, description="of the optimizer")',
    "ColorJitter": 'depth: Annotated[int, Added("0.3")] = Field(1, ge=1, description="of the colours")',
    "MethodConfig": 'width: Annotated[int, Added("0.3")] = Field(1, ge=1, description="of the method")',
    "RunConfig": 'toys: Annotated[bool, Added("0.3"), WhoReads("script", instead="play outside"), Stored()] ='
    ' Field(False, description="name of the run")',
}
"""Other fields that somebody could add, by the class of their section."""

ASKED = Path(__file__).with_name("ask_a_copy.py")


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


@pytest.fixture(scope="module")
def copy_with_the_fields(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, folder / "radial_vicreg", ignore=shutil.ignore_patterns("yaml"))
    config = folder / "radial_vicreg" / "config"
    for section, field in (("DataConfig", recipe()), *WHERE_IT_MAY_STAND.items()):
        file = config / ("schema.py" if section == "RunConfig" else "sections.py")
        file.write_text(add(file.read_text(), section, field))
    schema = config / "schema.py"
    schema.write_text(schema.read_text().replace("    ALL,\n", "    ALL,\n    Added,\n", 1))
    return folder


def test_a_key_is_one_field_and_everything_follows(
    copy_with_the_fields: Path, run_python: Callable[..., CompletedProcess[str]]
) -> None:
    plain = plain_config()
    done = run_python(str(ASKED), json.dumps(plain), PYTHONPATH=str(copy_with_the_fields))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)

    # It is read, with its default, and other values and spellings are refused.
    assert found["read"] == ["epoch", "once"]
    assert found["refused"] == [
        "data.order must be one of epoch, once, got 'never'",
        "data.ordr is not a setting; did you mean data.order?",
        "optimizer.mood must be a finite number, 0 to 1, got 2",
    ]
    assert found["stored"] == {"toys": False}

    # Documents and the command line know its choices.
    assert found["schema"] == {
        "anyOf": [{"enum": ["epoch", "once"], "type": "string"}, {"pattern": r"\$\{", "type": "string"}],
        "default": "epoch",
        "description": "when the order of the images is drawn",
    }
    assert found["choices"] == ["epoch", "once"]
    assert "| `data.order` | one of epoch, once | `epoch` | when the order of the images is drawn |" in found["tables"]
    assert "| `toys` | play outside |" in found["tables"]

    # Earlier runs keep their identities; another value is another experiment, unless it is declared outside.
    before = config_hash(read_config(plain).plain())
    assert {key: hashes[0] for key, hashes in found["hashes"].items()} == dict.fromkeys(found["hashes"], before)
    same = {key for key, hashes in found["hashes"].items() if hashes[1] == before}
    assert same == {"data.bare"}
    assert found["of_0_2"] == parts_of_release_0_2(read_config(plain))

    # The command that does not read it refuses it.
    assert found["notes"]["script"] == [
        "data.order=once is read by `radial-vicreg pretrain` only, and solo-learn's script would ignore it: use that"
        " command, or set data.order=epoch"
    ]
    assert found["notes"]["pretrain"] == [
        "toys=true is read by solo-learn's main_pretrain.py only: play outside; omit it, or set it to false"
    ]

    # What a declaration lacks is named.
    assert found["undeclared"] == [
        "data.bare has no description: add description=... to its field",
        "data.bare has no reader: add ALL, PRETRAIN or WhoReads('script', instead=...) to its field",
    ]
