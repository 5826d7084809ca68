"""The tests of MCP servers can fail: each rule, broken on purpose, is found out."""

from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests import patience
from tests.tools.mcp import attacks, test_commands, test_http, test_sampling
from vegakit.host import Process
from vegakit.sdk import mcp as runtime_mcp
from vegakit.tools import McpServer, McpServers, http_requests as reaching
from vegakit.tools.mcp import (
    pins as offering,
    sessions as connections,
    sessions as offered_tools,
    sessions as results,
    transport as streams,
)
from vegakit.tools.mcp.pins import ListedTool, ToolList

Check: TypeAlias = Callable[[Path], Coroutine[Any, Any, None]]


def without_wallet(answerer: Any) -> Process[Any]:
    """A new process, and so a new budget, for each question."""
    agent = runtime_mcp._agent(answerer._server)
    return answerer._runtime.spawn(agent, wallet=answerer._server.sampling, restart="temporary")


def changed_names(before: Iterable[ListedTool], tool_list: ToolList) -> dict[str, str]:
    """A pin of the name alone."""
    names = {tool.name for tool in tool_list.tools}
    return {tool.name: "gone" for tool in before if tool.name not in names}


FAULTS: dict[str, tuple[Any, str, Any, Check]] = {
    "drift": (connections, "changes", lambda before, tool_list: {}, attacks.rug_pull),
    "renaming": (connections, "changes", lambda before, tool_list: {}, attacks.renamed),
    "pin of the name alone": (connections, "changes", changed_names, attacks.schema_gains_a_field),
    "letters of names": (offering, "name_problem", lambda server, tool: "", attacks.unseen_letter),
    "prefix": (offered_tools, "model_name", lambda server, tool: tool, attacks.shadowing),
    "flood": (streams, "_MOST_UNASKED", 1 << 40, attacks.flood_of_changes),
    "number of tools": (offering, "MOST_TOOLS", 1 << 40, attacks.too_many_tools),
    "length of lines": (streams, "_MOST_LINE_BYTES", 1 << 26, attacks.too_many_tools),
    "garbled lines": (streams, "_MOST_GARBLED", 1 << 40, attacks.no_messages),
    "marks": (results, "mark_untrusted", lambda text: text, attacks.orders_in_a_result),
    "escapes": (results, "sanitise", lambda text, most=0: text, attacks.terminal_sequences),
    "addresses": (
        reaching,
        "is_public",
        lambda address: True,
        test_http.test_a_name_that_leads_to_this_machine_is_refused,
    ),
    "folder": (
        McpServer,
        "may_write",
        True,
        test_commands.test_its_folder_is_written_when_that_is_declared,
    ),
    "starts": (
        connections,
        "_MOST_STARTS",
        99,
        test_commands.test_a_server_that_keeps_dying_is_left_alone,
    ),
    "one budget": (
        runtime_mcp._Answerer,
        "_started",
        without_wallet,
        test_sampling.test_a_budget_that_is_used_up_stays_so,
    ),
    "end with the owner": (
        McpServers,
        "end_of",
        lambda servers, owner: None,
        test_commands.test_each_owner_has_a_server_of_its_own,
    ),
}


@pytest.mark.parametrize("rule", FAULTS)
async def test_a_broken_rule_is_found_out(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the test that is there for it."""
    room, name, fault, check = FAULTS[rule]
    monkeypatch.setattr(patience, "PATIENCE_S", 3.0)
    monkeypatch.setattr(room, name, fault)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await check(tmp_path)
