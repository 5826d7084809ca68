"""Every command of `vega node`, on every sample, as a person would type it."""

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.test_node_debug import SAMPLES, STATEFUL, _inputs_of
from tests.vesper.test_document import actions
from vegakit.cli import main
from vegakit.contracts import native_obstacle
from vegakit.sdk import Runtime
from vegakit.store import open_stores
from vegakit.vesper import NodeFile, load_node, node_rollout

FILES = sorted(SAMPLES.glob("*.vsp"))
PROGRAMS = [load_node(file).program for file in FILES]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a rollout of each sample, begun and not asked yet."""
    place = tmp_path_factory.mktemp("evidence") / "kept.db"

    async def begin() -> None:
        store, *others = open_stores(str(place))
        async with Runtime(observable=False, store=store) as rt:
            for file in FILES:
                async with node_rollout(rt, load_node(file), candidate="direct") as rolled:
                    await rolled.rolled.begin()
        for each in (store, *others):
            await each.aclose()

    asyncio.run(begin())
    return place


class _Sample(NamedTuple):
    """A sample with what its commands are given, and how one is typed."""

    file: Path
    node: NodeFile
    inputs: dict[str, Any]
    world: list[str]
    folder: Path
    evidence: Path
    told: Callable[..., Any]

    @property
    def typed_inputs(self) -> list[str]:
        return ["--inputs", json.dumps(self.inputs), *self.world]


def _check(one: _Sample) -> None:
    assert one.told("check", one.file)["errors"] == []


def _compile(one: _Sample) -> None:
    made = one.told("compile", one.file, "-o", one.folder / "made.py")
    assert made["node_id"] == one.node.program.node_id
    source = (one.folder / "made.py").read_text()
    assert source.startswith("# AUTO-GENERATED - DO NOT EDIT\n")
    compile(source, "made.py", "exec")


def _run(one: _Sample) -> None:
    by = [one.told("run", one.file, *one.typed_inputs, "--path", each) for each in PATHS]
    assert by[0]["status"] == by[1]["status"]
    assert by[0].get("outputs") == by[1].get("outputs")


def _test(one: _Sample) -> None:
    [report] = one.told("test", one.file, "--cases", 20)["reports"]
    assert (report["differing"], report["broken"]) == (0, [])


def _diff(one: _Sample) -> None:
    assert one.told("diff", one.file, one.file, "--cases", 10)["report"]["differing"] == 0


def _batch(one: _Sample) -> None:
    rows = one.folder / "rows.jsonl"
    rows.write_text(json.dumps(one.inputs) + "\n")
    if one.node.program.has_effects:
        assert "has effects" in one.told("batch", one.file, rows)
        return
    native = "direct" if native_obstacle(one.node.program) else "native"
    by = [one.told("batch", one.file, rows, "--path", each) for each in ("python", native)]
    assert by[0] == by[1]


def _prove(one: _Sample) -> None:
    [proof] = one.told("prove", one.file, "--most", 1, "--timeout", 0.2)["proofs"]
    assert proof["node_id"] == one.node.program.node_id
    assert len(proof["clauses"]) >= 1


def _debug(one: _Sample) -> None:
    told = one.told("debug", one.file, *one.typed_inputs, "--comparative")
    assert told["difference"] is None
    assert len(told["said"]) >= 2


def _replay(one: _Sample) -> None:
    trace = one.folder / "trace.json"
    one.told("run", one.file, *one.typed_inputs, "--trace", trace)
    assert one.told("replay", trace)["differs"] is False


def _list(one: _Sample) -> None:
    [node] = one.told("list", one.file)["nodes"]
    assert node["path"] == str(one.file)


def _deps(one: _Sample) -> None:
    [node] = one.told("deps", one.file)["nodes"]
    assert node["node_id"] == one.node.program.node_id
    assert {*node["all"]} >= {callee.node_id for callee in one.node.program.callees}


def _who_needs(one: _Sample) -> None:
    callers = {file.node_id for file in PROGRAMS if one.node.program.node_id in str(file.callees)}
    found = one.told("who-needs", one.node.program.node_id, "--in", SAMPLES)["nodes"]
    assert {each["id"] for each in found} >= callers


def _mode(one: _Sample) -> str:
    [found] = one.told("status", one.file, "--store", one.evidence)
    return found["mode"]


def _status(one: _Sample) -> None:
    assert _mode(one) == "shadow"


def _decided(action: str, mode: str, *more: str) -> Callable[[_Sample], None]:
    def decide(one: _Sample) -> None:
        one.told(action, one.node.program.node_id, "--store", one.evidence, *more)
        assert _mode(one) == mode

    return decide


PATHS = ("python", "direct")
COMMANDS: dict[str, Callable[[_Sample], None]] = {
    "check": _check,
    "compile": _compile,
    "run": _run,
    "test": _test,
    "diff": _diff,
    "batch": _batch,
    "prove": _prove,
    "debug": _debug,
    "replay": _replay,
    "list": _list,
    "deps": _deps,
    "who-needs": _who_needs,
    "status": _status,
    "promote": _decided("promote", "canary", "--yes"),
    "demote": _decided("demote", "shadow"),
    "stop": _decided("stop", "reference_only"),
}
"""In an order in which each finds what those before it made."""
ROLLOUT = {"status", "promote", "demote", "stop"}
"""Actions of `vega rollout`, which takes the file of a node or its id."""


def test_every_command_is_here() -> None:
    """A new one has to run on the samples, too."""
    assert {*COMMANDS} == {*actions()} | ROLLOUT


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_command_runs_on_a_sample(
    file: Path,
    evidence: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And ends as people are told that it does."""

    def told(*arguments: object) -> Any:
        monkeypatch.setattr("sys.stdin", io.StringIO("quit\n"))
        capsys.readouterr()
        command = "rollout" if arguments[0] in ROLLOUT else "node"
        main([command, *map(str, arguments), "--json"])
        out, err = capsys.readouterr()
        return json.loads(out) if out else " ".join(err.split())

    inputs, records = STATEFUL.get(file.stem, ({}, {}))
    world = ["--records", json.dumps(records)] if records else []
    one = _Sample(
        file, load_node(file), inputs or _inputs_of(file)[0], world, tmp_path, evidence, told
    )
    for command in COMMANDS.values():
        command(one)
