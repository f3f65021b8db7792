"""Warnings: ours are one line without a place in the source, and those of libraries to their callers are not shown."""

from __future__ import annotations

import sys
import warnings

import pytest
from torch.utils.data import DataLoader

from radial_vicreg.io.notices import Notice, ignore_library_deprecations, warn


def shown(category: type[Warning]) -> str:
    return warnings.formatwarning("something", category, "module.py", 7, "    warnings.warn('something')")


def test_a_notice_is_one_line_and_other_warnings_keep_their_place() -> None:
    with pytest.warns(Notice, match="something"):
        warn("something")
    assert shown(Notice) == "warning: something\n"
    assert shown(UserWarning) == "module.py:7: UserWarning: something\n  warnings.warn('something')\n"


def test_a_notice_is_one_line_after_somebody_else_has_changed_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "formatwarning", lambda *_: "theirs")  # as Lightning does when it is imported
    with pytest.warns(Notice):
        warn("something")
    assert shown(Notice) == "warning: something\n"
    assert shown(UserWarning) == "theirs"


@pytest.mark.parametrize("category", [DeprecationWarning, PendingDeprecationWarning, FutureWarning])
def test_deprecations_of_libraries_are_not_shown(category: type[Warning], recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("default")
    ignore_library_deprecations()
    warnings.warn("`isinstance(treespec, LeafSpec)` is deprecated", category, stacklevel=1)
    DataLoader([1], num_workers=1000)  # PyTorch warns of more workers than cores, for every loader
    warnings.warn("radial_vicreg.hosts.solo is radial_vicreg.solo now", DeprecationWarning, stacklevel=1)
    assert [str(entry.message).split()[0] for entry in recwarn] == ["radial_vicreg.hosts.solo"]


def test_whoever_asks_python_for_warnings_gets_all_of_them(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(sys, "warnoptions", ["default"])
    warnings.simplefilter("default")
    ignore_library_deprecations()
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert len(recwarn) == 1
