"""Turns for a session that was long: `python -m campaigns.terminal.long_session TURNS` adds them to
the last session of this folder, as a session itself keeps them.

A turn is a question, a file that is read, a command, and an answer with a list and a block of code.
"""

import asyncio
import sys
from pathlib import Path

from campaigns.terminal.seats import Seated
from vegakit.config import load
from vegakit.conversation import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from vegakit.sage import SessionStore, TurnRecord
from vegakit.sdk import runtime_arguments

__all__ = ["lengthen", "main"]


def lengthen(seat: Seated, turns: int) -> None:
    """Begin a session of an agent, and make it so many turns long."""
    seat.it.script("Hello.", repeats=True)
    began = seat.it.ask("hi")
    assert began.status == 0, began.said
    if turns > 1:
        module = "campaigns.terminal.long_session"
        added = seat.it.run([sys.executable, "-m", module, str(turns)])
        assert added.returncode == 0, added.stderr


def _turn(number: int) -> TurnRecord:
    read, ran = f"r{number}", f"s{number}"
    lines = "\n".join(f"{n}: value_{n} = {n * number}" for n in range(1, 13))
    answer = (
        f"Turn {number} changed **two things** in `module_{number}.py`:\n\n"
        f"- the name `value_{number}`, which stood in three places\n"
        "- the test that held the old name\n\n"
        f"```python\ndef value_{number}() -> int:\n    return {number}\n```\n\nAll tests pass."
    )
    asked = f"Question {number}: what is in module_{number}.py, and is it right?"
    said: tuple[Message, ...] = (
        UserMessage((Text(asked),)),
        AssistantMessage(
            (
                Text("I look at it."),
                ToolCall(read, "read", {"path": f"module_{number}.py"}),
                ToolCall(ran, "shell", {"command": f"pytest -q tests/test_{number}.py"}),
            )
        ),
        ToolMessage(
            (
                ToolResult(read, "read", lines),
                ToolResult(ran, "shell", f"{number} passed in 0.12s\nexit code 0"),
            )
        ),
        AssistantMessage((Text(answer),)),
    )
    return TurnRecord(asked, answer, said, steps=(1,))


async def _add(turns: int) -> None:
    journal = runtime_arguments(load({"journal.enabled": True}))["journal"]
    sessions = SessionStore(journal.store(), Path.cwd())
    record = await sessions.find("")
    assert record is not None
    for number in range(2, turns + 1):
        await sessions.keep_turn(record, number, _turn(number))
    record.turns = turns
    await sessions.keep(record)
    await journal.aclose()


def main(turns: str) -> int:
    """Add turns."""
    asyncio.run(_add(int(turns)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
