"""Questions to people, in the pure machine."""

from typing import Any

import pytest
from msgspec import structs

from tests.program.rooms import CODE, Room
from vegakit.effects import AskHuman, digest_of
from vegakit.events import Answered, EffectCancelled, EffectOutcome, OutcomeArrived, Refused
from vegakit.policy import ExitKind, ExitReason, InterruptKind
from vegakit.program import (
    AskPerson,
    DeferReply,
    ReducerBody,
    Respond,
    ResultMessage,
    Returned,
    SendExitSignal,
    TerminateProcess,
)


def clerk(state: Any, message: Any) -> tuple[Any, list[Any]]:
    """Asks a person what it is asked, and answers with what it hears."""
    if isinstance(message, ResultMessage):
        outcome = message.outcome
        said = (
            outcome.value if isinstance(outcome, Returned) else f"{outcome.error}: {outcome.reason}"
        )
        return state, [Respond(said, to=message.ask)]
    kind, question = message
    return state, [DeferReply(question), AskPerson(question, question, InterruptKind(kind), 60_000)]


def opened() -> tuple[Room, str]:
    room = Room({**CODE, "clerk": ReducerBody(clerk)})
    return room, room.spawn("clerk")


def test_a_reducer_asks_a_person() -> None:
    """Until an absolute time; the answer comes as a message."""
    room, path = opened()
    room.now = 1_000
    ask = room.ask(path, ["clarification", "which branch?"])
    assert room.only().request == AskHuman("clarification", "which branch?", 61_000)
    assert room.only().deadline_ms == 61_000
    room.answer(Answered("main"))
    assert room.told(ask) == "main"


@pytest.mark.parametrize(
    ("kind", "outcome", "heard"),
    [
        ("confirmation", Answered(True), True),
        ("confirmation", Answered(False), False),
        ("confirmation", Answered(None), False),
        ("confirmation", Answered("yes"), False),
        ("agent_review", Answered(None), False),
        ("clarification", Answered(None), None),
        ("clarification", Refused("LimitReached", "too many"), "LimitReached: too many"),
        ("confirmation", EffectCancelled(), "Cancelled: it was cancelled"),
    ],
)
def test_silence_never_approves(kind: str, outcome: EffectOutcome, heard: object) -> None:
    """Nor does anything else that is not an approval; silence is no words."""
    room, path = opened()
    ask = room.ask(path, [kind, "deploy?"])
    room.answer(outcome)
    assert room.told(ask) is heard or room.told(ask) == heard


def test_questions_are_told_apart() -> None:
    """Equal ones of two messages are two effects, and so are two of one message."""

    def asks_twice(state: Any, message: Any) -> tuple[Any, list[Any]]:
        if isinstance(message, ResultMessage):
            outcome: Any = message.outcome
            return [*state, (message.ask, outcome.value)], []
        return state, [AskPerson(message, "first"), AskPerson(message, "second")]

    room = Room({"clerk": ReducerBody(asks_twice, [])})
    path = room.spawn("clerk")
    room.ask(path, "deploy?")
    room.ask(path, "deploy?")
    asked = list(room.in_flight.values())
    assert len(asked) == 4
    for number in (3, 0):
        room.answer(Answered(number == 3), asked[number])
    assert room.state.processes[path].memory == [["second", True], ["first", False]]


@pytest.mark.parametrize("ends", ["crashes", "is killed"])
def test_a_question_ends_with_the_life_that_asked(ends: str) -> None:
    """What a person answers afterwards is heard by nobody."""
    room, path = opened()
    room.ask(path, ["confirmation", "deploy?"])
    asked = room.only()
    crash = SendExitSignal(path, ExitReason(ExitKind.CRASHED, "boom"))
    room.step(crash if ends == "crashes" else TerminateProcess(path, kill=True))
    assert room.cancelled == [asked.key]
    room.step(OutcomeArrived(asked.key, asked.path, Answered(True)))
    assert not any(isinstance(outcome, Returned) for outcome in room.answers.values())


def test_a_recorded_question_is_found_again_at_another_time() -> None:
    """Its key and digest say what is asked and where, not until when."""
    effects: list[Any] = []
    for now in (0, 5_000):
        room, path = opened()
        room.state.recorded, room.now = True, now
        room.ask(path, ["confirmation", "deploy?"])
        effects.append(room.only())
    assert effects[0].request != effects[1].request
    assert (effects[0].key, effects[0].digest) == (effects[1].key, effects[1].digest)
    other = structs.replace(effects[0].request, question="deploy live?")
    assert digest_of(other) != effects[0].digest
