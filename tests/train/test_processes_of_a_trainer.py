"""Rates, identity and loaders are computed for a number of processes: a trainer with another one is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from configs import make_config

from radial_vicreg.errors import UserError
from radial_vicreg.train.processes import check_processes


@pytest.mark.parametrize(("devices", "started"), [([0], 2), ([0, 1], 1), ([0, 1], 3)])
def test_more_and_fewer_processes_than_asked_for_are_refused(devices: list[int], started: int) -> None:
    config = make_config(devices=devices, strategy="ddp")
    with pytest.raises(UserError, match=rf"trains with {started} process\(es\), but .*: take .* or ask for {started}"):
        check_processes(config, SimpleNamespace(world_size=started))
    check_processes(config, SimpleNamespace(world_size=len(devices)))
