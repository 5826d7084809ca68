"""A failure says which effects it comes from: those are asked again when its run goes on."""

import pytest

from tests.program.compiled import code_of
from tests.program.rooms import CENT, Room, agent, calls, says
from vegakit.agent import ToolOutcome
from vegakit.effects import CallTool
from vegakit.errors import AgentFailed, ErrorClass, UserError, causes_of
from vegakit.events import Answered, Crashed, Failed, Refused, Unknown
from vegakit.ids import EffectKey
from vegakit.money import Money
from vegakit.policy import Resend, RestartRule, RetryRule
from vegakit.program import MessageFailed, Prompt

DOWN = Failed(ErrorClass.SERVER, "down")
A, B = "agent A { model fast }\n", "agent B { model fast }\n"


def fell(room: Room, ask: str) -> MessageFailed:
    outcome = room.answers[ask]
    assert isinstance(outcome, MessageFailed), outcome
    return outcome


@pytest.mark.parametrize("outcome", [DOWN, Refused("BudgetExceeded", "no"), Unknown(CENT)])
def test_a_turn_fails_because_of_its_last_call(outcome: Failed | Refused | Unknown) -> None:
    """Whatever the world said to it."""
    room = Room({"agent": agent(retry=RetryRule(resend_unknown=Resend.NEVER))})
    ask = room.prompt(room.spawn("agent"))
    key = room.only().key
    room.answer(outcome)
    assert fell(room, ask).cause == (key,)


def test_what_the_machine_decides_has_no_cause() -> None:
    """A budget that is too small is looked at anew; the answers before stay as they are."""
    room = Room({"agent": agent("look", budget=Money(2 * CENT))})
    ask = room.prompt(room.spawn("agent"))
    room.answer(calls("look"))
    room.answer(Answered(ToolOutcome("seen")))
    assert fell(room, ask).error == "BudgetExceeded"
    assert fell(room, ask).cause == ()


def test_a_turn_that_tools_keep_failing_fails_because_of_the_tools() -> None:
    """Not of its model, whose answers led to calls that are recorded."""
    room = Room({"agent": agent("look")})
    ask = room.prompt(room.spawn("agent"))
    keys: list[EffectKey] = []
    while ask not in room.answers:
        room.answer(calls("look"))
        keys.append(room.only(CallTool).key)
        room.answer(Answered(ToolOutcome("no such file", is_error=True)))
    assert fell(room, ask).cause == (keys[-1],)


def test_restarts_that_were_in_vain_name_what_crashed_the_last_life() -> None:
    """Those before were lived on from."""
    room = Room()
    path = room.spawn("agent", rule=RestartRule(max_restarts=1))
    ask = room.prompt(path)
    room.answer(Crashed("full disk"))
    key = room.only().key
    room.answer(Crashed("full disk", cause=(EffectKey("inner"),)))
    assert fell(room, ask).cause == (key, "inner")


def run(
    source: str, *outcomes: Answered | Failed | Unknown
) -> tuple[MessageFailed, list[EffectKey]]:
    """How it failed, and the keys of what it asked, in the order of the program."""
    room = Room(code_of(source))
    ask = room.ask(room.spawn("main"), [])
    keys: list[EffectKey] = []
    for outcome in outcomes:
        effect = next(iter(room.in_flight.values()))
        keys.append(effect.key)
        room.answer(outcome, effect)
    return fell(room, ask), keys


def test_a_program_fails_because_of_the_send_that_it_does_not_catch() -> None:
    source = f'{A}fn main() -> str {{ let x = A <- "one"; return x + (A <- "two"); }}'
    failed, keys = run(source, says("fine"), DOWN)
    assert failed.cause == (keys[1],)


def test_what_was_caught_and_lived_on_is_no_cause() -> None:
    """Neither of an error of the program's own, nor of another send."""
    caught = f'{A}fn main() {{ try {{ let x = A <- "one"; }} catch AgentFailed {{ print("well"); }}'
    failed, _ = run(f'{caught} fail("bad"); }}', DOWN)
    assert (failed.error, failed.cause) == ("Failed", ())
    failed, keys = run(f'{caught} let y = A <- "two"; }}', DOWN, DOWN)
    assert failed.cause == (keys[1],)


def test_what_fails_in_a_handler_fails_because_of_what_is_handled() -> None:
    """Raised anew there, in a function that is called there, or by another send."""
    caught = f'{A}fn main() {{ try {{ let x = A <- "one"; }} catch AgentFailed(why)'
    failed, keys = run(f"{caught} {{ fail(why); }} }}", DOWN)
    assert failed.cause == (keys[0],)
    failed, keys = run(f"{caught} {{ give(why); }} }} fn give(why: str) {{ fail(why); }}", DOWN)
    assert failed.cause == (keys[0],)
    failed, keys = run(f'{caught} {{ let y = A <- "two"; }} }}', DOWN, DOWN)
    assert failed.cause == (keys[1], keys[0])


def test_a_handler_knows_only_what_it_handles_now() -> None:
    """In each round of a loop it is entered anew; an error of the program itself has no cause."""
    source = f"""{A}fn main() {{
        let xs = [1];
        for n in [0, 5] {{
            try {{
                if n == 0 {{ let x = A <- "one"; }}
                print(xs[n]);
            }} catch {{
                if n == 5 {{ fail("bad"); }}
            }}
        }}
    }}"""
    failed, _ = run(source, DOWN)
    assert (failed.error, failed.cause) == ("Failed", ())


def test_futures_that_failed_and_were_not_awaited_are_causes_too() -> None:
    """Else a run would meet them one after the other, each time it goes on. One that was awaited
    and caught is none."""
    source = f"""{A}fn main() {{
        let caught = async A <- "one";
        let first = async A <- "two";
        let second = async A <- "three";
        try {{ print(await caught); }} catch AgentFailed {{ print("lived on"); }}
        print(await first);
        print(await second);
    }}"""
    room = Room(code_of(source))
    ask = room.ask(room.spawn("main"), [])
    one, two, three = list(room.in_flight.values())
    for effect in (three, one, two):
        room.answer(DOWN, effect)
    assert fell(room, ask).cause == (two.key, three.key)


def test_parallel_parts_carry_the_cause_to_who_joins_them() -> None:
    source = f"""{A}{B}fn main() {{
        parallel {{ let x = A <- "one"; let y = B <- "two"; }}
        print(x + y);
    }}"""
    failed, keys = run(source, says("fine"), DOWN)
    assert failed.cause == (keys[1],)


def test_python_finds_causes_behind_all_that_an_error_follows_from() -> None:
    """What it was raised from, what was being handled, and the members of groups."""

    def made(*cause: str) -> AgentFailed:
        error = AgentFailed("it failed")
        error.cause = cause
        return error

    outer = UserError("mine")
    outer.__cause__ = ExceptionGroup("all", [made("a"), ValueError("no"), made("b", "a")])
    outer.__context__ = made("c")
    outer.__context__.__context__ = outer
    assert sorted(causes_of(outer)) == ["a", "b", "c"]
    assert causes_of(ValueError("no")) == ()


def test_a_prompt_that_never_got_to_a_call_has_no_cause() -> None:
    room = Room()
    ask = room.ask("nobody", Prompt(()))
    assert fell(room, ask).cause == ()
