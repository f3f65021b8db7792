"""A term is its declaration (``radial_vicreg.names.terms``), its function, its definition (``tests/objectives.py``)."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from objectives import CASES, DEFINITIONS
from omegaconf import OmegaConf

from radial_vicreg import losses
from radial_vicreg.config import sections
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.names.terms import ADDED, LOGGED, OBJECTIVE, RADIAL, RADIAL_OBJECTIVES, TERMS, Key, Term, terms_of

ROOT = Path(__file__).parents[2]
#: Public functions that are no term, and what they are.
NO_TERMS = {
    "radial_gaussianization_loss": "cross-entropy minus entropy",
    "radial_kl": "logged",
    "marginal_entropy": "a part of E2MC",
    "hypercovariance_loss": "a part of E2MC",
    "radial_equilibrium": "the minimum of a term",
}
OF_THE_LOSS_ALONE = ("seed", "gather_distributed")

every_term = pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
every_key = pytest.mark.parametrize("key", OBJECTIVE.values(), ids=lambda key: key.name)


def _kind(key: Key) -> Any:
    if key.choices:
        return str
    return int | None if key.default is None else type(key.default)


def test_names_and_symbols_stand_for_one_term() -> None:
    names = [term.name for term in TERMS] + list(LOGGED)
    assert len(names) == len(set(names)), names
    keys = [key.name for term in TERMS for key in (term.weight, *term.reads)]
    assert len(keys) == len(set(keys)), keys
    for objective in RADIAL:
        symbols = [term.symbol for term in (*objective.terms, *ADDED)]
        assert len(symbols) == len(set(symbols)), (objective.name, symbols)


@every_term
def test_a_term_has_a_public_function_whose_documentation_has_its_formula(term: Term) -> None:
    function = getattr(losses, term.function, None)
    assert term.function in losses.__all__, f"{term.name} is declared, and radial_vicreg.losses has no {term.function}"
    documented = " ".join((inspect.getdoc(function) or "").split())
    assert f":math:`{term.formula}" in documented, f"the docstring of {term.function} lacks the formula of {term.name}"


@every_term
def test_a_term_has_a_definition(term: Term) -> None:
    assert term.name in DEFINITIONS, f"{term.name} is declared, and tests/objectives.py defines no such term"


def test_a_public_function_is_that_of_a_term() -> None:
    public = {name for name in losses.__all__ if inspect.isfunction(getattr(losses, name))}
    declared = {term.function for term in TERMS}
    missing = sorted(public - declared - NO_TERMS.keys())
    assert not missing, f"{', '.join(missing)}: radial_vicreg/names/terms.py declares no term with this function"


def test_the_arguments_of_the_loss_are_the_declared_keys_in_their_order() -> None:
    arguments = [name for name in inspect.signature(RadialVICRegLoss).parameters if name not in OF_THE_LOSS_ALONE]
    missing = ", ".join(name for name in OBJECTIVE if name not in arguments)
    assert not missing, f"RadialVICRegLoss takes no {missing}, which radial_vicreg/names/terms.py declares"
    undeclared = ", ".join(name for name in arguments if name not in OBJECTIVE)
    assert not undeclared, f"radial_vicreg/names/terms.py declares no {undeclared}, which RadialVICRegLoss takes"
    assert arguments == list(OBJECTIVE)


@every_key
def test_an_argument_of_the_loss_and_a_key_of_the_configuration_are_as_declared(key: Key) -> None:
    default = inspect.signature(RadialVICRegLoss).parameters[key.name].default
    assert (type(default), default) == (type(key.default), key.default)
    assert get_type_hints(RadialVICRegLoss.__init__)[key.name] == _kind(key)
    assert re.search(rf"^    +{key.name}: ", RadialVICRegLoss.__doc__ or "", re.MULTILINE), "not in its docstring"
    field = sections.MethodConfig.model_fields[key.name]
    assert (field.default, field.description) == (key.default, key.meaning)
    assert [mark.ge for mark in field.metadata] == ([] if key.low is None else [key.low])
    if key.choices:
        assert (get_origin(field.annotation), get_args(field.annotation)) == (Literal, key.choices)
    else:
        assert field.annotation == _kind(key)
    wrong: list[Any] = ["no such choice", 3.5 if key.default is None else None]
    wrong += [] if key.low is None else [key.low - 1]
    for value in wrong:
        with pytest.raises(ValueError, match=f"^{key.name}: expected "):
            RadialVICRegLoss(**{key.name: value})


def test_a_weight_is_a_number_that_is_not_negative() -> None:
    for term in TERMS:
        assert (type(term.weight.default), term.weight.low) == (float, 0), term.name
        assert term.symbol.isidentifier(), term.name
        assert term.label, term.name
    for term in ADDED:
        assert term.weight.default == 0, f"{term.name} counts by default: earlier runs would be other experiments"


def test_the_loss_computes_the_declared_terms() -> None:
    z = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    for name in RADIAL_OBJECTIVES:
        loss = RadialVICRegLoss(**CASES[name])
        loss(z, z)
        missing = [term.name for term in terms_of(name) if term.name not in loss.terms]
        assert not missing, f"RadialVICRegLoss computes no {', '.join(missing)} with radial_objective={name}"


def test_the_typed_keys_of_the_configuration_are_declared() -> None:
    """What ``MethodConfig`` shows to type checkers under TYPE_CHECKING."""
    source = Path(sections.__file__).read_text()
    typed = source[source.index("class _ObjectiveConfig") :].split("\nelse:")[0]
    shown = dict(re.findall(r"^ +(\w+): (.+?)(?: = .*)?$", typed, re.MULTILINE))
    assert shown
    for name, annotation in shown.items():
        kind = _kind(OBJECTIVE[name])
        assert annotation == (kind.__name__ if isinstance(kind, type) else str(kind)), name


@every_key
def test_the_yaml_has_the_key_at_its_default(key: Key) -> None:
    given: dict[str, Any] = {}
    for group in ("vicreg", "radialvicreg"):
        given |= OmegaConf.load(ROOT / "yaml" / "radialvicreg" / "method" / f"{group}.yaml").method_kwargs
    assert key.name in given, f"yaml/radialvicreg/method/radialvicreg.yaml has no {key.name}"
    assert (type(given[key.name]), given[key.name]) == (type(key.default), key.default)


def _rows(page: str) -> list[list[str]]:
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if line.startswith("| ")]


@every_key
def test_the_table_of_keys_has_the_key_with_its_names_default_and_log(key: Key) -> None:
    found = [row for row in _rows("names.md") if f"`{key.name}`" in row[0]]
    assert len(found) == 1, f"docs/names.md has {len(found)} rows for {key.name}"
    _, paper, default, logged = found[0]
    assert all(alias in paper for alias in key.aliases), (key.aliases, paper)
    value = f"{key.default:g}" if type(key.default) is float else {None: "null"}.get(key.default, str(key.default))
    assert re.search(rf"(^|\W){re.escape(value)}(\W|$)", default, re.IGNORECASE), (key.default, default)
    for term in (term for term in TERMS if term.weight == key):
        assert logged == f"`train_{term.name}_epoch`"


@every_term
def test_the_table_of_terms_has_the_term_with_its_weight_function_and_formula(term: Term) -> None:
    row = [f"`{term.name}`", f"`{term.weight.name}`", f"`{term.function}`", f"${term.formula}$".replace("|", "\\|")]
    assert row in _rows("objective.md"), f"docs/objective.md lacks the row | {' | '.join(row)} |"
