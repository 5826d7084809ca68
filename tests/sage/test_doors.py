"""The same session through every door of the coding agent, and what a cancel and a kill leave."""

import copy
import shutil

import pytest
from campaigns.code_doors.acp_client import Editor, schema_faults
from campaigns.code_doors.checks import (
    ASKING,
    cancel_to_silence,
    conformance,
    cost_faults,
    kill_faults,
    transcripts,
)
from campaigns.code_doors.doors import DOORS, Event, differences, normalised

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="commands need bubblewrap")


async def test_every_door_tells_the_same() -> None:
    found = await transcripts(("SDK", *(name for name in DOORS if name != "SDK")))
    assert {name: faults for name, faults in found.items() if faults} == {}
    assert len(found) == len(DOORS)


async def test_doors_that_ask_a_person_tell_the_same() -> None:
    found = await transcripts(ASKING, "ask")
    assert {name: faults for name, faults in found.items() if faults} == {}


TOLD: list[Event] = [
    {"type": "text", "text": "I "},
    {"type": "text", "text": "do."},
    {"type": "tool_began", "id": "1.1.0", "name": "read", "arguments": {}},
    {"type": "tool_began", "id": "1.1.1", "name": "grep", "arguments": {}},
    {"type": "tool_ended", "id": "1.1.1", "name": "grep", "result": "r"},
    {"type": "tool_ended", "id": "1.1.0", "name": "read", "result": "r"},
    {"type": "cost", "spent_usd": 0.1},
    {"type": "end", "reason": "done", "text": "I do."},
    {"type": "cost", "spent_usd": 0.2},
]


@pytest.mark.parametrize("lost", range(len(TOLD)))
def test_an_event_that_is_lost_is_found(lost: int) -> None:
    """Whichever it is; of the cost the last one counts."""
    cut = [event for number, event in enumerate(TOLD) if number != lost]
    found = differences(normalised(cut), normalised(TOLD))
    assert bool(found) == (TOLD[lost]["type"] != "cost" or lost == len(TOLD) - 1)


def test_what_one_run_may_tell_otherwise_is_the_same() -> None:
    """Where a text was cut, and which call ended first."""
    other = copy.deepcopy([TOLD[0] | {"text": "I do."}, *TOLD[2:4], TOLD[5], TOLD[4], *TOLD[6:]])
    assert differences(normalised(other), normalised(TOLD)) == []


async def test_every_message_of_acp_fits_the_schema() -> None:
    found = await conformance(1, 1)
    assert found.faults == []
    assert found.kinds >= 18, found


@pytest.mark.parametrize(
    ("change", "is_right"),
    [
        ({}, True),
        ({"status": "done"}, False),
        ({"toolCallId": 1}, False),
        ({"unknown": 1}, False),
        ({"locations": [{"line": 1}]}, False),
    ],
)
def test_a_message_that_does_not_fit_is_found(change: dict[str, object], *, is_right: bool) -> None:
    update = {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "t", **change}
    client = Editor(lambda _: None)
    client.messages = [
        {
            "jsonrpc": "2.0",
            "method": "session/update",
            "params": {"sessionId": "s", "update": update},
        }
    ]
    assert (schema_faults(client) == []) == is_right


async def test_the_cost_that_editors_are_told_is_that_of_the_ledger() -> None:
    assert await cost_faults() == []


@pytest.mark.parametrize("name", ASKING)
async def test_a_cancel_ends_the_turn_and_its_commands(name: str) -> None:
    assert (await cancel_to_silence(name)).faults == []


@pytest.mark.parametrize("name", ASKING)
async def test_a_killed_door_goes_on_and_buys_nothing_twice(name: str) -> None:
    assert await kill_faults(name, "edit") == []
