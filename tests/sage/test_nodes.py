"""The tool `node` of the coding agent: the nodes of a folder that the person named."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

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
