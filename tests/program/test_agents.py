import dataclasses

from msgspec import structs

from tests.program.rooms import CENT, Room, agent, calls, says
from vegakit.agent import ToolOutcome
from vegakit.effects import CallModel, CallTool
from vegakit.errors import ErrorClass, Phase
from vegakit.events import Answered, Crashed, EffectCancelled, Failed, Unknown
from vegakit.money import Money
from vegakit.policy import BreakerRule, ExitKind, ExitReason, Resend, RetryRule
from vegakit.program import (
    AgentReply,
    BreakerOpened,
    CancelAsk,
    ProcessExited,
    ProcessRestarted,
    SendExitSignal,
)


def test_an_agent_answers_by_one_model_call() -> None:
    """A prompt becomes a model call; its answer is the agent's."""
    room = Room()
    ask = room.prompt(room.spawn("agent"))
    assert isinstance(room.only().request, CallModel)
    room.answer(says("hello"))
    assert room.told(ask).text == "hello"
    assert not room.in_flight


def test_sends_to_an_agent_without_memory_run_side_by_side() -> None:
    """Each has a conversation of its own, so none waits for another."""
    room = Room()
    path = room.spawn("agent")
    asks = [room.prompt(path, f"{n}") for n in range(3)]
    for effect in list(room.in_flight.values())[::-1]:
        room.answer(says(effect.request.request.messages[-1].parts[0].text), effect)
    assert [room.told(ask).text for ask in asks] == ["0", "1", "2"]


def test_an_agent_with_memory_answers_in_turn() -> None:
    """The second question goes out after the first answer, and carries it."""
    room = Room()
    path = room.spawn("keeper")
    first, second = room.prompt(path, "a"), room.prompt(path, "b")
    room.answer(says("A"))
    assert room.told(first).text == "A"
    assert len(room.only().request.request.messages) == 3
    room.answer(says("B"))
    assert len(room.told(second).conversation.messages) == 4


def test_tools_are_called_at_once_and_answered_by_index() -> None:
    """Results reach the model in the order of its calls, whatever order they came in."""
    room = Room({"agent": agent("x", "y", idempotent=["x", "y"])})
    ask = room.prompt(room.spawn("agent"))
    room.answer(calls("x", "y"))
    x, y = room.in_flight.values()
    assert isinstance(x.request, CallTool)
    room.answer(Answered(ToolOutcome("Y")), y)
    room.answer(Answered(ToolOutcome("X")), x)
    results = room.only().request.request.messages[-1].results
    assert [result.content for result in results] == ["X", "Y"]
    room.answer(says("done"))
    assert room.told(ask).text == "done"


def test_a_failed_call_is_an_answer_and_the_agent_lives() -> None:
    """What the world does is told to the asker; it is no crash."""
    room = Room()
    path = room.spawn("agent")
    ask = room.prompt(path)
    room.answer(Failed(ErrorClass.REJECTED, "no", Phase.ANSWERED))
    assert room.fell(ask) == "AgentFailed"
    again = room.prompt(path)
    room.answer(says("fine"))
    assert room.told(again).text == "fine"
    assert not room.news(ProcessRestarted)


def test_a_billed_failure_is_retried_by_the_program_with_a_new_reservation() -> None:
    """The next attempt is another occurrence of the same effect."""
    room = Room()
    ask = room.prompt(room.spawn("agent", wallet=Money(4 * CENT)))
    first = room.only()
    room.answer(Failed(ErrorClass.TIMEOUT, "late", Phase.UNKNOWN, Money(2 * CENT)))
    room.wait(10_000)
    again = room.only()
    assert again.key != first.key
    assert again.path.occurrence == 1
    room.answer(says("ok"))
    assert room.told(ask).text == "ok"
    assert room.state.wallets["agent"].spent == 3 * CENT


def test_a_retry_that_no_longer_fits_is_refused() -> None:
    """A resend never spends what was not reserved."""
    room = Room()
    ask = room.prompt(room.spawn("agent", wallet=Money(3 * CENT)))
    room.answer(Failed(ErrorClass.TIMEOUT, "late", Phase.UNKNOWN, Money(2 * CENT)))
    room.wait(10_000)
    assert room.fell(ask) == "BudgetExceeded"
    assert not room.in_flight


def test_attempts_of_the_host_count() -> None:
    """Three attempts are three, whoever made them."""
    room = Room()
    ask = room.prompt(room.spawn("agent"))
    room.answer(Failed(ErrorClass.TIMEOUT, "late", Phase.UNKNOWN, attempts=3))
    assert room.fell(ask) == "Timeout"


def test_a_lost_answer_is_asked_for_again_unless_the_rule_says_never() -> None:
    """After each cut, however often, since max_attempts counts what a living gate tried; each cut
    is charged. With `never` the loss is told."""
    rules = RetryRule(resend_unknown=Resend.NEVER), RetryRule(max_attempts=1)
    room = Room(
        {name: agent(retry=rule) for name, rule in zip(("shy", "bold"), rules, strict=True)}
    )
    shy = room.prompt(room.spawn("shy"))
    room.answer(Unknown(CENT))
    assert room.fell(shy) == "AgentFailed"
    path = room.spawn("bold")
    bold = room.prompt(path)
    for _ in range(3):
        room.answer(Unknown(CENT))
        room.wait(1)
    room.answer(says("ok"))
    assert room.told(bold).text == "ok"
    assert room.state.wallets[path].spent == 4 * CENT


def test_what_failed_a_run_is_asked_again_whatever_the_rule_says() -> None:
    """What it cost stays spent."""
    room = Room({"shy": agent(retry=RetryRule(resend_unknown=Resend.NEVER))})
    path = room.spawn("shy")
    ask = room.prompt(path)
    room.answer(Unknown(CENT, again=True))
    room.wait(1)
    room.answer(says("ok"))
    assert room.told(ask).text == "ok"
    assert room.state.wallets[path].spent == 2 * CENT


def test_a_crash_delivers_the_message_again() -> None:
    """The next life gets the letter; its calls are new ones."""
    room = Room()
    path = room.spawn("agent")
    ask = room.prompt(path)
    first = room.only()
    room.answer(Crashed("bad adapter", CENT))
    second = room.only()
    assert first.key != second.key
    room.answer(says("ok"))
    assert room.told(ask).text == "ok"
    assert [n.generation for n in room.news(ProcessRestarted)] == [2]
    assert room.state.wallets[path].spent == 2 * CENT


def test_a_crash_after_an_unrepeatable_tool_is_told_to_the_asker() -> None:
    """It must not be done twice, so nobody does it again unasked."""
    room = Room({"agent": agent("pay", "look", idempotent=["look"])})
    path = room.spawn("agent")
    careful = room.prompt(path)
    room.answer(calls("look"))
    room.answer(Answered(ToolOutcome("seen")))
    room.answer(Crashed("bug"))
    room.answer(says("fine"))
    assert room.told(careful).text == "fine"
    risky = room.prompt(path)
    room.answer(calls("pay"))
    room.answer(Answered(ToolOutcome("paid")))
    room.answer(Crashed("bug"))
    assert room.fell(risky) == "AgentFailed"
    assert not room.in_flight


def test_exhausted_restarts_tell_every_asker() -> None:
    """Three restarts in the window; the fourth crash is the end."""
    room = Room({"agent": agent(retry=RetryRule(max_attempts=9))})
    path = room.spawn("agent")
    ask = room.prompt(path)
    for _ in range(4):
        room.answer(Crashed("bug"))
    assert room.fell(ask) == "AgentFailed"
    assert [e.path for e in room.news(ProcessExited)] == [path]
    assert path not in room.state.processes
    assert room.fell(room.prompt(path)) == "AgentFailed"


def test_a_cancelled_ask_cancels_its_call_and_keeps_its_money_held() -> None:
    """What may be billed stays held until its outcome is known."""
    room = Room()
    path = room.spawn("agent", wallet=Money(4 * CENT))
    ask = room.prompt(path)
    room.step(CancelAsk(ask))
    effect = room.only()
    assert room.cancelled == [effect.key]
    assert room.state.wallets[path].held == 2 * CENT
    assert room.fell(ask) == "Cancelled"
    room.answer(EffectCancelled(Money(2 * CENT)), effect)
    wallet = room.state.wallets[path]
    assert (wallet.held, wallet.spent) == (0, 2 * CENT)


def test_a_deadline_ends_the_ask_and_not_the_agent() -> None:
    """Timeout goes to the asker; the call is cancelled."""
    room = Room()
    path = room.spawn("agent")
    ask = room.prompt(path, timeout_ms=1000)
    call = room.only(CallModel)
    room.wait(1000)
    assert room.fell(ask) == "Timeout"
    assert room.cancelled == [call.key]
    assert path in room.state.processes


def test_a_letter_whose_deadline_passed_in_the_mailbox_is_never_begun() -> None:
    """An agent with memory passes over what nobody waits for."""
    room = Room()
    path = room.spawn("keeper")
    first, late = room.prompt(path), room.prompt(path, timeout_ms=10)
    room.wait(10)
    assert room.fell(late) == "Timeout"
    room.answer(says("x"), room.only(CallModel))
    assert room.told(first)
    assert not [e for e in room.in_flight.values() if isinstance(e.request, CallModel)]


def test_an_agents_own_breaker_opens_and_refuses() -> None:
    """CircuitOpen is an answer, decided in the program."""
    never = RetryRule(max_attempts=1)
    room = Room({"agent": agent(breaker=BreakerRule(threshold=2), retry=never)})
    path = room.spawn("agent")
    for _ in range(2):
        room.prompt(path)
        room.answer(Failed(ErrorClass.SERVER, "down", Phase.ANSWERED))
    assert room.news(BreakerOpened) == [BreakerOpened("agent agent")]
    assert room.fell(room.prompt(path)) == "CircuitOpen"


def test_an_agent_that_repeats_the_same_call_is_stopped() -> None:
    """Running in circles ends in LimitReached before the steps do."""
    room = Room({"agent": agent("look", idempotent=["look"])})
    ask = room.prompt(room.spawn("agent"))
    for _ in range(20):
        if ask in room.answers:
            break
        room.answer(calls("look"))
        if room.in_flight:
            room.answer(Answered(ToolOutcome("same")))
    assert room.fell(ask) == "LimitReached"
    assert "circles" in room.answers[ask].reason


def test_a_turn_that_compares_results_may_repeat_a_call() -> None:
    """200 times, each with another result; the fifth with the same result is stopped."""
    body = agent("look", idempotent=["look"], budget=Money(300 * CENT))
    rule = structs.replace(body.rule, max_steps=500, max_tool_calls=500, identical_results=5)
    room = Room({"agent": dataclasses.replace(body, rule=rule)})
    ask = room.prompt(room.spawn("agent"))
    for number in range(200):
        room.answer(calls("look"))
        room.answer(Answered(ToolOutcome(f"edit {number}")))
    assert ask not in room.answers
    for _ in range(4):
        room.answer(calls("look"))
        room.answer(Answered(ToolOutcome("edit 199")))
    assert room.fell(ask) == "LimitReached"
    assert "5 times in a row" in room.answers[ask].reason


def test_said_carries_what_it_cost() -> None:
    """The answer says what its whole send was charged."""
    room = Room()
    ask = room.prompt(room.spawn("helper"))
    room.answer(calls("look"))
    room.answer(Answered(ToolOutcome("seen")))
    room.answer(says("ok"))
    assert isinstance(room.told(ask), AgentReply)
    assert room.answers[ask].charged == 2 * CENT


def test_a_timer_of_an_earlier_life_sends_nothing_twice() -> None:
    """The next life makes the same call anew; the retry that was waited for is not made too."""
    room = Room()
    path = room.spawn("agent")
    room.prompt(path)
    room.answer(Failed(ErrorClass.TIMEOUT, "late", Phase.UNKNOWN))
    room.step(SendExitSignal(path, ExitReason(ExitKind.CRASHED)))
    room.wait(60_000)
    assert isinstance(room.only(CallModel).request, CallModel)
    assert room.only(CallModel).path.incarnations[-1].generation == 2
