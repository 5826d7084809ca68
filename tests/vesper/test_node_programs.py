"""Nodes that programs call, in both languages: checked, priced, explained, killed and resumed."""

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import pytest

from tests.durability.commands import Home
from vegakit.cli import main
from vegakit.errors import UserError
from vegakit.host import PythonInterop
from vegakit.lang import manifest_of
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, check_source, load
from vegakit.testing import Hang, Provider, ProviderReply
from vegakit.vesper import program_nodes

NODES = Path(__file__).parents[2] / "examples/nodes"
TRANSFER = (NODES / "transfer.vsp").read_text()

VEGA = """\
node pay = "transfer_v1"

agent Clerk { model fast budget $0.10 }

fn main(amount: int) -> int {
    let done = pay(source: 1000, target: 0, fees: 0, amount: amount);
    print(Clerk <- "Sent {done.target}.");
    return done.source;
}
"""
PYTHON = """\
from vegakit import Agent, program, vega

pay = vega.node("transfer_v1")
clerk = Agent("clerk", model="fast", budget="$0.10")


@program
def main(amount: int) -> int:
    done = pay(source=1000, target=0, fees=0, amount=amount)
    print(clerk(f"Sent {done.target}."))
    return done.source
"""
SOURCES = {"main.vega": VEGA, "main.py": PYTHON}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes/transfer.vsp").write_text(TRANSFER)
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(words)
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize("name", SOURCES)
def test_a_call_of_a_node_has_types(
    name: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of its inputs and of its outputs, before anything runs."""
    path = project / name
    assert said(capsys, "check", str(path))[0] == 0
    path.write_text(SOURCES[name].replace("done.source", "done.sauce"))
    status, _, err = said(capsys, "check", str(path))
    assert (status, "sauce" in err, "source" in err) == (1, True, True)
    path.write_text(SOURCES[name].replace("amount: int", "amount: str"))
    assert "`amount` of `pay` must be an int" in said(capsys, "check", str(path))[2]


@pytest.mark.parametrize("name", SOURCES)
def test_a_node_that_is_not_there_is_told_once(
    name: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it is declared, and nothing that follows from it."""
    (project / name).write_text(SOURCES[name].replace("transfer_v1", "transfer_v7"))
    status, _, err = said(capsys, "check", str(project / name))
    assert status == 1
    assert 'there is no node "transfer_v7"' in err
    assert "1 error in 1 file" in err


def test_a_file_that_is_wrong_is_told_instead(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be the one that is meant."""
    (project / "nodes/transfer.vsp").write_text(
        TRANSFER.replace("operation: compute", "operation: x")
    )
    status, _, err = said(capsys, "check", str(project / "main.vega"))
    assert status == 1
    assert "transfer.vsp:" in err
    assert "no operation 'x'" in err


@pytest.mark.parametrize("name", SOURCES)
def test_a_node_costs_and_touches_nothing(
    name: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So it is in no quote, and not among what nobody knows."""
    source = SOURCES[name]
    for line in source.splitlines(keepends=True):
        if "lerk" in line:
            source = source.replace(line, "")
    (project / name).write_text(source)
    assert "at most $0.0000 in 0 sends" in said(capsys, "cost", str(project / name))[1]
    found = json.loads(said(capsys, "explain", str(project / name), "--json")[1])
    assert not any(found[key] for key in ("agents", "unknown", "servers", "posts", "writes"))
    [flow] = [one for one in found["flows"] if one["name"] == "main"]
    assert "pay(" in json.dumps(flow)


def test_an_agent_of_a_program_has_a_node_as_a_tool(project: Path) -> None:
    """By the name that the program gives it; its effects are known: none."""
    path = project / "main.vega"
    path.write_text(VEGA.replace("model fast", "model fast tools [pay]"))
    tools = program_nodes(path)
    [given] = load(path, tools=tools).agent("Clerk").tools
    assert given is tools[0]
    checked = check_source(path, PythonInterop(tools).signatures).checked
    assert checked is not None
    assert manifest_of(checked).unknown == ()


def test_a_program_is_loaded_with_its_nodes(project: Path) -> None:
    """In Python they are given, as functions are."""
    model = ScriptedModel(["fine"])

    async def work() -> Any:
        async with Runtime(observable=False, models=lambda _: model) as rt:
            path = project / "main.vega"
            return await rt.run(rt.load(path, tools=program_nodes(path)), 100)

    assert asyncio.run(work()) == 900
    with pytest.raises(UserError, match='there is no node "transfer_v1"'):
        load(project / "main.vega")


def test_a_node_may_have_any_name_and_node_is_no_keyword(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own, too; a variable may be called node."""
    (project / "main.vega").write_text(
        'node transfer_v1 = "transfer_v1";\n'
        "fn main() -> int { let node = transfer_v1(9, 0, 0, 1); return node.target; }\n"
    )
    assert said(capsys, "check", str(project / "main.vega"))[0] == 0
    status, out, _ = said(capsys, "fmt", "--to", "python", str(project / "main.vega"))
    assert status == 0
    assert 'transfer_v1 = vega.node("transfer_v1")' in out


# Killed, and resumed.


class NodeHome(Home):
    """A home whose processes import what this test imports."""

    def start(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        out: int | IO[str] = subprocess.PIPE,
    ) -> "subprocess.Popen[str]":
        ours = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        return super().start(*words, env={**ours, **(env or {})}, out=out)


@pytest.mark.parametrize("name", SOURCES)
def test_a_killed_run_goes_on_with_what_its_node_gave(name: str, tmp_path: Path) -> None:
    """The node is not asked again: it has changed meanwhile, and its first result is used."""
    with Provider([Hang(), ProviderReply("fine")]).in_thread() as provider:
        home = NodeHome(tmp_path, provider)
        node = home.folder / "nodes/transfer.vsp"
        node.parent.mkdir()
        node.write_text(TRANSFER)
        home.killed(1, "-m", "vegakit", "run", home.write(SOURCES[name], name), "100")
        changed = TRANSFER.replace("value: amount * fee_points / 10000", "value: amount / 2")
        assert changed != TRANSFER
        node.write_text(changed)
        ended = home.vega("resume")
        assert (ended.status, ended.out.split()) == (0, ["fine", "900"]), str(ended)
        assert home.asked == ["Sent 100."] * 2
        fresh = home.vega("run", name, "100")
        assert fresh.out.split()[-1] == "850", str(fresh)
