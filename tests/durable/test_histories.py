"""Programs that Temporal recorded in earlier days are taken up by the code of today.

No server is needed: the recorded history is the server.
"""

import base64
import dataclasses
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from temporalio.api.enums.v1 import EventType

from tests.durable.histories import FOLDER, code_of, queue_of_scene, stored
from tests.durable.scenes import SCENES, fan
from tests.durable.stage import replay
from vegakit.durable import register_code
from vegakit.effects import Effect, EffectPath, effect
from vegakit.host import Reducer
from vegakit.program import Respond, core


def with_bodies(name: str, change: Callable[[Any], Any] = lambda body: body) -> None:
    scene = SCENES[name]
    changed = scene._replace(bodies=lambda: [change(body) for body in scene.bodies()])
    register_code(queue_of_scene(name), code_of(changed))


def kinds_of(name: str) -> list[str]:
    return [
        EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")
        for history in stored(name)
        for event in history.events
    ]


@pytest.mark.parametrize("name", SCENES)
async def test_a_recorded_program_replays(name: str) -> None:
    """Step by step, with the commands that it gave then."""
    with_bodies(name)
    histories = stored(name)
    assert histories, "nothing is recorded; type python -m tests.durable.histories NAME"
    await replay(histories)


def test_there_are_twenty() -> None:
    """And no file of a scene that is gone."""
    assert {file.name.split(".")[0] for file in FOLDER.glob("*.json")} == set(SCENES)
    assert len(SCENES) >= 20


def test_they_show_what_they_are_for() -> None:
    """Calls at once, timers, cancelled and repeated activities, several runs."""
    calls = "ACTIVITY_TASK_SCHEDULED"
    assert re.search(f"({calls} ){{5}}", " ".join(kinds_of("five_at_once")))
    assert "ACTIVITY_TASK_CANCEL_REQUESTED" in kinds_of("cancel")
    assert "TIMER_FIRED" in kinds_of("timers")
    assert kinds_of("unknown_and_sent_again").count(calls) == 2
    assert kinds_of("nested_budget_refuses").count(calls) == 0
    assert (len(stored("next_runs")), len(stored("next_run_waits_for_calls"))) >= (3, 2)


def test_they_do_not_tell_where_they_were_made() -> None:
    """Neither machine nor folder, in the open or inside a payload."""
    for file in FOLDER.glob("*.json"):
        text = file.read_text()
        payloads = (base64.b64decode(found) for found in re.findall(r'"data": "([^"]+)"', text))
        whole = text.encode() + b"".join(payloads)
        assert f"@{socket.gethostname()}" not in text
        assert not re.search(rb"/(work|root|home|tmp|Users)/", whole)
        assert set(re.findall(r"\w+@(\w+)", text)) <= {"localhost"}


def other_system(body: Any) -> Any:
    return dataclasses.replace(body, system="Be brief.")


def asks_four(body: Any) -> Any:
    return Reducer("fan", lambda s, m: _without_last(fan(s, m))) if body.name == "fan" else body


def asks_backwards(body: Any) -> Any:
    return Reducer("fan", lambda s, m: _backwards(fan(s, m))) if body.name == "fan" else body


def answers_at_once(body: Any) -> Any:
    return Reducer(body.name, lambda state, _: (state, [Respond("now")]))


def _without_last(done: tuple[Any, list[Any]]) -> tuple[Any, list[Any]]:
    return done[0], done[1][:-1]


def _backwards(done: tuple[Any, list[Any]]) -> tuple[Any, list[Any]]:
    return done[0], done[1][:1] + done[1][:0:-1]


@pytest.mark.parametrize(
    ("name", "change", "found"),
    [
        ("two_sends", other_system, "TMPRL1100"),
        ("cancel", other_system, "TMPRL1100"),
        ("next_runs", answers_at_once, "TMPRL1100"),
        ("five_at_once", asks_four, "TMPRL1100"),
        ("five_at_once", asks_backwards, "TMPRL1100"),
        ("timers", answers_at_once, "TMPRL1100"),
    ],
)
async def test_a_changed_program_is_found(name: str, change: Any, found: str) -> None:
    """By a command that the history does not have: an activity is named by place and request."""
    with_bodies(name, change)
    with pytest.raises(Exception, match=r".*") as raised:
        await replay(stored(name))
    assert found in str(raised.value)


CALLING = [name for name in SCENES if "ACTIVITY_TASK_SCHEDULED" in kinds_of(name)]


@pytest.mark.parametrize("name", CALLING)
async def test_a_changed_machine_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that names its effects in another way, by every program that has some."""

    def renamed(path: EffectPath, *facts: Any, **more: Any) -> Effect:
        return effect(structs.replace(path, occurrence=path.occurrence + 1), *facts, **more)

    monkeypatch.setattr(core, "effect", renamed)
    with_bodies(name)
    with pytest.raises(Exception, match="TMPRL1100"):
        await replay(stored(name))
