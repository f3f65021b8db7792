"""W&B's own agent runs the sweep files: its server is a stand-in on this machine, and nothing leaves it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from helpers import finished, started, with_resnet, without

from radial_vicreg.solo.detect import find_solo_learn
from radial_vicreg.sweeps import load_sweep

pytest.importorskip("wandb", reason="wandb is not installed")
pytestmark = [pytest.mark.slow]

SWEEPS = Path(str(resources.files("radial_vicreg"))) / "yaml" / "radialvicreg" / "sweeps"
SECONDS = 500

#: Of the tables' sweeps of release 0.2, which lie on W&B's servers: with solo-learn's script, nothing translates names.
COMMAND_OF_0_2 = """
command:
  - ${env}
  - ${interpreter}
  - ${program}
  - --config-name
  - cell
  - wandb.enabled=true
  - ${args_no_hyphens}
"""


class StandIn:
    """Answers the agent's four queries and hands out runs one by one; when the last has ended, tells it to exit.

    Args:
        sweep: text of the sweep file.
        runs: swept key to value, one dictionary a run.
        program: what the agent puts in the place of ``${program}``.

    Attributes:
        states: what the agent said of its runs, one entry a heartbeat.
    """

    def __init__(self, sweep: str, runs: list[dict[str, Any]], program: str) -> None:
        self.sweep, self.runs, self.program = sweep, list(enumerate(runs)), program
        self.states: list[dict[str, bool]] = []

    def answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        if "agentHeartbeat" in query:
            return {"agentHeartbeat": {"agent": {"id": "agent"}, "commands": self._commands(variables)}}
        if "createAgent" in query:
            return {"createAgent": {"agent": {"id": "agent"}}}
        if "sweep(" in query:
            sweep = {"id": "1", "name": "s1", "config": self.sweep, "runs": {"edges": []}}
            return {"project": {"sweep": sweep}}
        return {"viewer": {"id": "1", "entity": "ent", "username": "ent", "flags": "{}", "teams": {"edges": []}}}

    def _commands(self, variables: dict[str, Any]) -> str:
        state = json.loads(variables.get("runState") or "{}")
        self.states.append(state)
        if state:  # a run is under way
            return "[]"
        if not self.runs:
            return json.dumps([{"type": "exit"}])
        index, values = self.runs.pop(0)
        arguments = {key: {"value": value} for key, value in values.items()}
        return json.dumps([{"type": "run", "run_id": f"run{index}", "args": arguments, "program": self.program}])


RunAgent = Callable[[StandIn], subprocess.CompletedProcess[str]]


@pytest.fixture
def run_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[StandIn], subprocess.CompletedProcess[str]]]:
    servers = []
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)

    def run(stand_in: StandIn) -> subprocess.CompletedProcess[str]:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = stand_in.answer(body.get("query", ""), body.get("variables") or {})
                content = json.dumps({"data": answer}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(tmp_path),  # no account of this machine's user
            "WANDB_BASE_URL": f"http://127.0.0.1:{server.server_port}",
            "WANDB_API_KEY": "0" * 40,
            "WANDB_ERROR_REPORTING": "false",
        }
        agent = [sys.executable, "-m", "wandb", "agent", "ent/proj/s1"]
        return finished(started(agent, tmp_path, **environment), SECONDS)

    yield run
    for server in servers:
        server.shutdown()
        server.server_close()


def on_a_cpu(tiny_overrides: list[str]) -> dict[str, Any]:
    """The overrides as swept parameters of one value, without the group that the sweep chooses; W&B offline."""
    pairs = dict(item.split("=", 1) for item in with_resnet(tiny_overrides))
    return {**pairs, "max_epochs": 1, "diagnostics.enabled": False, "wandb.offline": True}


@pytest.mark.solo
def test_the_agent_trains_two_runs_of_a_sweep_of_0_2_and_goes_on_after_one_that_fails(
    run_agent: RunAgent, tiny_overrides: list[str], tmp_path: Path
) -> None:
    location = find_solo_learn().location
    assert location is not None
    common = on_a_cpu(without(tiny_overrides, "runs_dir"))
    cell = {"+cifar100": "resnet18/radialvicreg_d512"}
    points = [
        {**cell, **common, "method_kwargs.radial_ce_loss_weight": weight, "data.val_path": "null", "seed": seed}
        for weight, seed in ((-1, 5), (0, 5), (100, 6))  # the first is refused by the method
    ]
    sweep = (SWEEPS / "tables" / "table1.yaml").read_text()
    assert sweep[sweep.index("\ncommand:") :] == COMMAND_OF_0_2
    stand_in = StandIn(sweep, points, str(location.parent / "main_pretrain.py"))
    done = run_agent(stand_in)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-3000:]
    assert "method_kwargs.radial_ce_loss_weight must be a finite number, 0 or more, got -1" in said
    assert {name for entry in stand_in.states for name in entry} == {"run0", "run1", "run2"}
    found = sorted(tmp_path.glob("trained_models/radialvicreg/*/results.json"))
    results = [json.loads(path.read_text()) for path in found]
    assert [result["status"] for result in results] == ["finished", "finished"]
    swept = {(r["config"]["method_kwargs"]["radial_ce_loss_weight"], r["seed"]) for r in results}
    assert swept == {(0, 5), (100, 6)}
    assert all(result["steps"] == 3 for result in results)


def test_the_agent_runs_the_variant_for_pretrain(
    run_agent: RunAgent, tiny_overrides: list[str], tmp_path: Path
) -> None:
    point = {"+cifar100": "resnet18/radialvicreg_d512", "seed": 7, "host": "standalone", **on_a_cpu(tiny_overrides)}
    stand_in = StandIn(load_sweep("tables/table1").for_pretrain(), [point], "radial-vicreg")
    done = run_agent(stand_in)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    (path,) = tmp_path.glob("runs/*/*/results.json")
    results = json.loads(path.read_text())
    assert (results["status"], results["seed"], results["steps"]) == ("finished", 7, 3)
