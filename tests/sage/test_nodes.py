"""The tool `node` of the coding agent: the nodes of a folder that the person named."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.sage.scene import scene
from vegakit.errors import ToolFailed, UserError
from vegakit.sage.tools.outside import node_tool

NODES = Path(__file__).parents[2] / "examples/nodes"
GIVEN = {"source": 100, "target": 0, "fees": 0, "amount": 10}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes/transfer.vsp").write_text((NODES / "transfer.vsp").read_text())
    return tmp_path


def said(folder: Path, **arguments: Any) -> str:
    return asyncio.run(node_tool(folder, "nodes").call(arguments, None))


def test_it_lists_what_can_be_called(folder: Path) -> None:
    """With inputs and outputs, and what is wrong with the others."""
    (folder / "nodes/bad.vsp").write_text("node_id: bad")
    first, second = said(folder).splitlines()
    assert first.startswith("transfer_v1(source: integer, ")
    assert second.startswith("cannot be used: ")


def test_it_runs_a_node_by_id_or_name(folder: Path) -> None:
    """Errors are those of the node; a node that is not there is told with what is."""
    for name in ("transfer_v1", "transfer"):
        assert said(folder, node=name, inputs=GIVEN) == '{"source":90,"target":10,"fees":0}'
    with pytest.raises(ToolFailed, match=r"^insufficient_funds"):
        said(folder, node="transfer", inputs=GIVEN | {"source": 1})
    with pytest.raises(UserError, match="did you mean transfer"):
        said(folder, node="transfers", inputs={})


def test_it_needs_no_right_and_leads_nowhere_else(folder: Path) -> None:
    """The folder lies in the workspace."""
    assert node_tool(folder, "nodes").rights({}).wanted == ()
    for name in ("..", "/etc", "nodes/../.."):
        with pytest.raises(UserError, match="vega code --nodes"):
            node_tool(folder, name)


def test_a_file_that_the_agent_changes_is_read_again(folder: Path) -> None:
    """What is written is what runs."""
    path = folder / "nodes/transfer.vsp"
    path.write_text(path.read_text().replace("fee_points / 10000", "fee_points / 10"))
    assert said(folder, node="transfer", inputs=GIVEN) == '{"source":65,"target":10,"fees":25}'


def test_figures_of_a_rule_that_was_changed_are_given_with_that(folder: Path) -> None:
    """To the agent with each figure, and to the person once."""
    notes: list[str] = []
    tool = node_tool(folder, "nodes", notes)
    asked = {"node": "transfer", "inputs": GIVEN}
    assert "note" not in asyncio.run(tool.call(asked, None))
    path = folder / "nodes/transfer.vsp"
    path.write_text(path.read_text().replace("fee_points / 10000", "fee_points / 10"))
    for _ in range(2):
        figures, note = asyncio.run(tool.call(asked, None)).splitlines()
        assert figures == '{"source":65,"target":10,"fees":25}'
        assert "changed since this session began or was resumed" in note
    assert [note.count("transfer.vsp") for note in notes] == [1]


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ("nosuch", "nosuch is no folder"),
        ("nodes/transfer.vsp", "nodes/transfer.vsp is no folder"),
        ("empty", "vega node check empty"),
        ("", "name a folder of the workspace"),
    ],
)
def test_a_folder_without_nodes_is_refused_before_anything_is_spent(
    tmp_path: Path, nodes: str, told: str
) -> None:
    """No session is begun."""
    with scene(tmp_path, "Done.") as it:
        (it.folder / "empty").mkdir()
        (it.folder / "nodes").mkdir()
        (it.folder / "nodes/transfer.vsp").write_text((NODES / "transfer.vsp").read_text())
        ran = it.here("-p", "Go.", "--nodes", nodes)
        assert (ran.returncode, it.bodies) == (2 if not nodes else 1, [])
        assert told in ran.stderr
        assert json.loads(it.here("--list", "--json").stdout or "[]") == []


def test_nodes_that_a_session_does_not_take_up_are_told(tmp_path: Path) -> None:
    with scene(tmp_path, "Done.") as it:
        begun = it.here("-p", "Go.", "--session", "s")
        assert begun.returncode == 0, begun.stderr
        ran = it.here("-p", "Go.", "--resume", "s", "--nodes", "rules")
        assert "note: --nodes rules is not used" in ran.stderr
        assert "this one has none; to use them, begin one: vega code --nodes rules" in ran.stderr
