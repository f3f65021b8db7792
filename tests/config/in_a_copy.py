"""What test_key_recipe.py asks of a copy of the package with added keys; its own pytest runs this file."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from configs import make_config, plain_config

from radial_vicreg.config.documents import json_schema, key_tables
from radial_vicreg.config.fields import choices, undeclared
from radial_vicreg.config.readers import refuse_unread
from radial_vicreg.errors import UserError
from radial_vicreg.runs.identity import config_hash, parts_of_release_0_2

KEYS = {"data__order": "once", "data__bare": 4, "optimizer__mood": 0.6, "toys": True}
"""Each with a value that is not its default."""


def test_it_is_read_with_its_default_and_other_values_and_spellings_are_refused() -> None:
    data: Any = make_config().data
    assert data.order == "epoch"
    assert make_config().plain()["toys"] is False, "Stored"
    for given, said in [
        ({"data__order": "never"}, "data.order must be one of epoch, once, got 'never'"),
        ({"data__ordr": "once"}, "data.ordr is not a setting; did you mean data.order?"),
        ({"optimizer__mood": 2}, "optimizer.mood must be a finite number, 0 to 1, got 2"),
    ]:
        with pytest.raises(UserError) as caught:
            make_config(**given)
        assert str(caught.value) == said


def test_documents_and_the_command_line_know_its_choices() -> None:
    assert json_schema()["$defs"]["DataConfig"]["properties"]["order"] == {
        "anyOf": [{"enum": ["epoch", "once"], "type": "string"}, {"pattern": r"\$\{", "type": "string"}],
        "default": "epoch",
        "description": "when the order of the images is drawn",
    }
    assert choices("data.order") == ("epoch", "once")
    assert "| `data.order` | one of epoch, once | `epoch` | when the order of the images is drawn |" in key_tables()
    assert "| `toys` | play outside |" in key_tables()


def test_earlier_runs_keep_their_identities_and_another_value_is_another_experiment_unless_outside() -> None:
    before = json.loads(os.environ["BEFORE"])
    assert config_hash(plain_config()) == before["hash"]
    same = {key for key, value in KEYS.items() if config_hash(plain_config(**{key: value})) == before["hash"]}
    assert same == {"data__bare"}
    assert parts_of_release_0_2(make_config(data__order="once")) == before["parts of 0.2"]


def test_the_command_that_does_not_read_it_refuses_it() -> None:
    with pytest.raises(UserError) as caught:
        refuse_unread(make_config(data__order="once"), "script")
    assert str(caught.value) == (
        "data.order=once is read by `radial-vicreg pretrain` only, and solo-learn's script would ignore it: use that"
        " command, or set data.order=epoch"
    )
    with pytest.raises(UserError) as caught:
        refuse_unread(make_config(toys=True), "pretrain")
    assert str(caught.value) == (
        "toys=true is read by solo-learn's main_pretrain.py only: play outside; omit it, or set it to false"
    )


def test_what_a_declaration_lacks_is_named() -> None:
    assert undeclared() == [
        "data.bare has no description: add description=... to its field",
        "data.bare has no reader: add ALL, PRETRAIN or WhoReads('script', instead=...) to its field",
    ]
