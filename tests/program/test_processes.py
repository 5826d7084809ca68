from typing import Any

import pytest

from tests.program.rooms import CENT, CODE, Room, agent, calls, counter, says
from vegakit.conversation import Text
from vegakit.effects import CallModel, RunCoroutine
from vegakit.events import Answered, Crashed, EffectCancelled
from vegakit.money import Money
from vegakit.policy import Backoff, ChildType, ExitKind, ExitReason, RestartRule, RestartStrategy
from vegakit.program import (
    AskProcess,
    Bounds,
    CancelAsk,
    CostAlert,
    DeferReply,
    Down,
    Exit,
    GroupSpec,
    Link,
    MachineEnded,
    Monitor,
    ProcessExited,
    ProcessMessage,
    ProcessRestarted,
    ProcessSpec,
    ProcessStuck,
    Prompt,
    ReducerBody,
    Respond,
    ResultMessage,
    Returned,
    SendAfter,
    SendExitSignal,
    ShutDown,
    Spawn,
    SpawnChild,
    SpawnRefused,
    Tell,
    TerminateProcess,
)
from vegakit.program.messages import system_message
from vegakit.records import from_json, to_json

BOOM = ExitReason(ExitKind.CRASHED, "boom")


def group(*bodies: str, strategy: str = "restart", max_restarts: int = 3, **more: Any) -> GroupSpec:
    rule = RestartRule(RestartStrategy(strategy), max_restarts)
    return GroupSpec(rule, {body: ProcessSpec(body, **more) for body in bodies})


def test_a_reducer_answers_in_the_same_step() -> None:
    """It is pure: no effect, no wait."""
    room = Room()
    path = room.spawn("counter")
    assert [room.told(room.ask(path, "more")) for _ in range(3)] == [1, 2, 3]


def test_a_reducer_that_raises_is_restarted_with_its_last_state() -> None:
    """The poison message is delivered again until restarts are used up; the state is kept."""
    room = Room()
    path = room.spawn("counter", rule=RestartRule(max_restarts=1))
    room.ask(path, "more")
    ask = room.ask(path, "boom")
    assert room.fell(ask) == "AgentFailed"
    assert len(room.news(ProcessRestarted)) == 1
    assert room.news(ProcessExited)[0].reason.kind is ExitKind.ESCALATED


def test_a_reducer_may_answer_later_and_ask_others() -> None:
    """It puts off its answer, asks an agent, and replies when it has heard."""

    def boss(state: Any, message: Any) -> tuple[Any, list[Any]]:
        if isinstance(message, ResultMessage):
            outcome: Any = message.outcome
            return state, [Respond(outcome.value.text.upper(), to="job")]
        return state, [DeferReply("job"), AskProcess("agent", Prompt((Text(message),)), "q")]

    room = Room({**CODE, "boss": ReducerBody(boss)})
    room.spawn("agent")
    ask = room.ask(room.spawn("boss"), "hello")
    assert ask not in room.answers
    room.answer(says("yes"))
    assert room.told(ask) == "YES"


def test_a_reducer_may_tell_wait_make_and_exit() -> None:
    """Everything that it does is data."""

    def clock(state: int, message: Any) -> tuple[int, list[Any]]:
        if message == "start":
            return 0, [SpawnChild(ProcessSpec("counter"), "kid"), SendAfter(100, "tick")]
        return state + 1, [Tell("clock/kid", "more"), Exit(ExitReason(ExitKind.NORMAL))]

    room = Room({**CODE, "clock": ReducerBody(clock, 0)})
    room.ask(room.spawn("clock"), "start")
    assert set(room.state.processes) == {"clock", "clock/kid"}
    room.wait(100)
    assert room.state.processes == {}


def test_a_function_is_handed_one_message_at_a_time() -> None:
    """The second waits for the first; what it raises crashes this life only."""
    room = Room()
    path = room.spawn("function")
    first, second = room.ask(path, "a"), room.ask(path, "b")
    room.answer(Answered("A"))
    assert room.told(first) == "A"
    room.answer(Crashed("ValueError: no"))
    room.answer(Answered("B"))
    assert room.told(second) == "B"
    assert room.state.processes[path].generation == 2


def test_a_service_ends_normally_when_it_returns_and_is_restarted_when_permanent() -> None:
    """Finishing is not failing, unless it was declared permanent."""
    room = Room()
    once = room.spawn("service")
    room.answer(Answered(None))
    assert once not in room.state.processes
    ever = room.spawn("service", kind=ChildType.PERMANENT)
    room.answer(Answered(None))
    assert room.state.processes[ever].generation == 2


def test_names_are_given_and_refused() -> None:
    """A name stands for one process; without one a number is added."""
    room = Room()
    assert [room.spawn("counter") for _ in range(3)] == ["counter", "counter-2", "counter-3"]
    assert room.spawn("counter", "carl") == "carl"
    said = room.step(Spawn(ProcessSpec("counter"), "carl"))
    assert "give another name" in said[0].reason
    assert "known are" in room.refuse("nobody").reason


def test_a_monitor_brings_one_down_and_a_link_takes_the_other_along() -> None:
    """They tie processes, not lives: a restart tells nobody."""
    room = Room()
    a, b = room.spawn("counter", "a"), room.spawn("counter", "b", kind=ChildType.TEMPORARY)
    room.step(Link(a, b))
    room.step(Monitor(a))
    room.step(SendExitSignal(a, BOOM))
    assert not room.news(Down)
    for _ in range(3):
        room.step(SendExitSignal(a, BOOM))
    assert [down.target for down in room.news(Down)] == [a]
    assert room.state.processes == {}


def test_a_monitor_of_nobody_says_noproc() -> None:
    """At once."""
    room = Room()
    room.step(Monitor("nobody"))
    assert room.news(Down)[0].reason.kind is ExitKind.NOPROC


def test_what_a_life_spawned_ends_with_it() -> None:
    """A restarted life starts anew; nothing of the old one goes on beside it."""
    room = Room()
    parent = room.spawn("function", "parent")
    room.spawn("counter", "kid", spawner=parent)
    room.step(SendExitSignal(parent, BOOM))
    assert list(room.state.processes) == [parent]
    assert room.spawn("counter", "kid", spawner=parent) == "parent#2/kid"


def test_kill_takes_the_tree_at_once() -> None:
    """Nothing is waited for; what was under way is cancelled and still settled."""
    room = Room()
    parent = room.spawn("function", "parent")
    kid = room.spawn("agent", "kid", spawner=parent, wallet=Money(4 * CENT))
    ask = room.prompt(kid)
    room.step(TerminateProcess(parent, kill=True))
    assert room.fell(ask) == "AgentFailed"
    assert {e.path for e in room.news(ProcessExited)} == {parent, kid}
    room.answer(EffectCancelled(Money(2 * CENT)), room.only(CallModel))
    assert room.state.processes == {}
    assert room.state.wallets == {}


def test_a_part_is_taken_from_the_spawner_and_comes_back() -> None:
    """The sum of all parts fits the parent's wallet."""
    room = Room()
    parent = room.spawn("function", "parent", wallet=Money(10 * CENT))
    kid = room.spawn("agent", spawner=parent, wallet=Money(6 * CENT))
    assert room.state.wallets[parent].held == 6 * CENT
    refused = room.refuse("agent", spawner=parent, wallet=Money(5 * CENT))
    assert refused.error == "BudgetExceeded"
    assert "$0.04 left" in refused.reason
    room.prompt(kid)
    room.answer(says("x"))
    room.step(TerminateProcess(kid))
    wallet = room.state.wallets[parent]
    assert (wallet.held, wallet.spent) == (0, CENT)


def test_a_child_without_a_wallet_spends_its_spawners() -> None:
    """A spawn never makes money."""
    room = Room()
    parent = room.spawn("function", "parent", wallet=Money(3 * CENT))
    kids = [room.spawn("agent", spawner=parent) for _ in range(2)]
    first, second = room.prompt(kids[0]), room.prompt(kids[1])
    assert room.fell(second) == "BudgetExceeded"
    room.answer(says("x"))
    assert room.told(first)
    assert room.state.wallets[parent].spent == CENT


def test_a_restart_keeps_the_wallet() -> None:
    """A crash loop cannot buy itself a fresh budget."""
    room = Room()
    path = room.spawn("agent", wallet=Money(4 * CENT))
    ask = room.prompt(path)
    for _ in range(2):
        room.answer(Crashed("bug", Money(2 * CENT)))
    assert room.fell(ask) == "BudgetExceeded"


def test_a_send_holds_its_part_until_it_ends() -> None:
    """An agent with a budget for one send may not use what another send was promised."""
    room = Room({"agent": agent("look", budget=Money(5 * CENT), idempotent=["look"])})
    path = room.spawn("agent", wallet=Money(8 * CENT))
    first, second = room.prompt(path), room.prompt(path)
    assert room.fell(second) == "BudgetExceeded"
    assert room.state.wallets[path].held == 5 * CENT
    room.answer(says("x"))
    wallet = room.state.wallets[path]
    assert room.told(first)
    assert (wallet.held, wallet.spent) == (0, CENT)


def test_an_alert_is_told_once() -> None:
    """When the money spent passes the mark."""
    room = Room()
    path = room.spawn("agent", alert_at=Money(2 * CENT))
    for _ in range(4):
        room.prompt(path)
        room.answer(says("x"))
    assert [alert.spent for alert in room.news(CostAlert)] == [2 * CENT]


def test_bounds_stop_a_runaway() -> None:
    """Depth, width and number of what processes spawn."""
    room = Room(bounds=Bounds(depth=2, width=2, living=3))
    top = room.spawn("function", "top")
    a = room.spawn("function", "a", spawner=top)
    room.spawn("function", "b", spawner=top)
    assert "width=2" in room.refuse("function", spawner=top).reason
    aa = room.spawn("function", "a", spawner=a)
    assert "depth=2" in room.refuse("function", spawner=aa).reason
    assert "living=3" in room.refuse("function", spawner=a).reason


def test_a_group_restarts_by_its_strategy() -> None:
    """With restart_all one crash restarts all; with restart only the one."""
    for strategy, generations in {"restart": [1, 2, 1], "restart_all": [2, 2, 2]}.items():
        room = Room({name: ReducerBody(counter, 0) for name in "abc"})
        room.step(Spawn(group("a", "b", "c", strategy=strategy), "team"))
        room.step(SendExitSignal("team/b", BOOM))
        assert [p.generation for p in room.state.processes.values()] == generations


def test_a_group_that_gives_up_ends_all_its_children() -> None:
    """Askers hear of it; the group is told as one that exited."""
    room = Room()
    room.step(Spawn(group("counter", "function", max_restarts=0), "team"))
    ask = room.ask("team/function", "x")
    room.step(SendExitSignal("team/counter", BOOM))
    room.answer(EffectCancelled(), room.only(RunCoroutine))
    assert room.fell(ask) == "AgentFailed"
    assert room.state.processes == {}
    assert room.state.supervisors == {}
    assert "team" in [e.path for e in room.news(ProcessExited)]


def test_a_restarted_group_goes_on_with_its_money() -> None:
    """Its children are new processes with the wallets of the old ones."""
    inner = group("agent", max_restarts=0, wallet=Money(4 * CENT))
    room = Room()
    room.step(Spawn(GroupSpec(RestartRule(), {"inner": inner}), "team"))
    room.prompt("team/inner/agent")
    room.answer(says("x"))
    room.step(SendExitSignal("team/inner/agent", BOOM))
    assert list(room.state.processes) == ["team/inner#2/agent"]
    assert room.state.wallets["team/inner/agent"].spent == CENT
    room.prompt("team/inner#2/agent")
    room.answer(says("x"))
    assert room.state.wallets["team/inner/agent"].spent == 2 * CENT


def test_a_wallet_caps_a_child_of_a_group() -> None:
    """At any depth, and in every generation of the group."""
    inner = group("agent", max_restarts=0, wallet=Money(3 * CENT))
    room = Room()
    room.step(Spawn(GroupSpec(RestartRule(), {"inner": inner}), "team"))
    room.prompt("team/inner/agent")
    room.answer(says("x", cost=Money(2 * CENT)))
    assert room.fell(room.prompt("team/inner/agent")) == "BudgetExceeded"
    room.step(SendExitSignal("team/inner/agent", BOOM))
    assert room.fell(room.prompt("team/inner#2/agent")) == "BudgetExceeded"


def test_the_parts_of_a_group_are_taken_together_and_come_back() -> None:
    """All of them fit the wallet of the spawner, or none is taken."""
    room = Room()
    parent = room.spawn("function", "parent", wallet=Money(10 * CENT))
    room.step(Spawn(group("agent", "keeper", wallet=Money(6 * CENT)), "rich", parent))
    (refused,) = room.news(SpawnRefused)
    assert "a part of $0.12" in refused.reason
    assert room.state.wallets[parent].held == 0
    room.step(Spawn(group("agent", "keeper", wallet=Money(4 * CENT)), "team", parent))
    assert room.state.wallets[parent].held == 8 * CENT
    room.step(TerminateProcess("parent/team"))
    assert room.state.wallets[parent].held == 0


def test_a_finished_child_is_started_again_with_its_group() -> None:
    """As OTP does."""
    room = Room()
    room.step(Spawn(group("service", "counter", strategy="restart_all"), "team"))
    room.answer(Answered(None))
    room.step(SendExitSignal("team/counter", BOOM))
    assert [p.generation for p in room.state.processes.values()] == [2, 2]


def test_shutting_down_ends_the_last_started_first() -> None:
    """Each waits until the one after it is gone."""
    room = Room()
    names = [room.spawn("service", f"s{n}") for n in range(3)]
    room.step(ShutDown())
    gone = []
    while room.in_flight:
        effect = room.in_flight[room.cancelled[-1]]
        gone.append(effect.path.incarnations[-1].name)
        room.answer(EffectCancelled(), effect)
        room.in_flight = {
            k: e for k, e in room.in_flight.items() if e.path.site.function != "alarm"
        }
    assert gone == names[::-1]
    assert isinstance(room.log[-1], MachineEnded)


def test_a_process_that_does_not_stop_is_killed_in_time() -> None:
    """Its supervisor waits as long as its spec says."""
    room = Room()
    path = room.spawn("service", stop_within_ms=100)
    room.step(TerminateProcess(path))
    assert not room.news(ProcessExited)
    room.wait(100)
    assert room.news(ProcessExited)[0].reason.kind is ExitKind.KILLED


def test_escalate_makes_the_spawner_pay() -> None:
    """The enclosing process crashes as by a failure of its own."""
    room = Room()
    top = room.spawn("function", "top")
    kid = room.spawn("counter", "kid", spawner=top, rule=RestartRule(RestartStrategy.ESCALATE))
    room.step(SendExitSignal(kid, BOOM))
    assert room.state.processes[top].generation == 2
    assert kid not in room.state.processes


def test_a_process_spends_in_its_tools_call() -> None:
    """A part for a send of an agent with tools is what remains, at most fifty cents."""
    room = Room({"agent": agent("look", idempotent=["look"])})
    path = room.spawn("agent", wallet=Money(3 * CENT))
    ask = room.prompt(path)
    assert room.state.wallets[path].held == 3 * CENT
    room.answer(calls("look", cost=Money(2 * CENT)))
    room.answer(Answered({"content": "seen"}))
    assert room.fell(ask) == "BudgetExceeded"


def waits(state: int, message: Any) -> tuple[int, list[Any]]:
    return state, [DeferReply(message)]


def test_an_answer_that_is_put_off_can_time_out_and_be_cancelled() -> None:
    """Its letter has left the mailbox, its asker still waits."""
    room = Room({"waiter": ReducerBody(waits, 0)})
    path = room.spawn("waiter")
    late, unwanted = room.ask(path, "x", timeout_ms=100), room.ask(path, "y")
    room.wait(99)
    assert late not in room.answers
    room.wait(1)
    assert room.fell(late) == "Timeout"
    room.step(CancelAsk(unwanted))
    assert room.fell(unwanted) == "Cancelled"


def test_a_word_that_is_used_again_leaves_nobody_waiting() -> None:
    """Who was put off under it before is told so."""
    room = Room({"waiter": ReducerBody(waits, 0)})
    path = room.spawn("waiter")
    first, second = room.ask(path, "x"), room.ask(path, "x")
    assert room.fell(first) == "AgentFailed"
    assert second not in room.answers


@pytest.mark.parametrize("strategy", ["restart", "restart_all"])
def test_a_process_is_ended_between_two_lives(strategy: str) -> None:
    """Its supervisor waits before the next one; then nothing is to be waited for."""
    rule = RestartRule(RestartStrategy(strategy), backoff=Backoff(1_000))
    for spec, path in (
        (ProcessSpec("counter", rule=rule), "x"),
        (GroupSpec(rule, {"counter": ProcessSpec("counter")}), "x/counter"),
    ):
        room = Room()
        room.step(Spawn(spec, "x"))
        room.step(SendExitSignal(path, BOOM))
        room.step(TerminateProcess(path))
        assert path in [exited.path for exited in room.news(ProcessExited)]
        room.step(ShutDown())
        assert isinstance(room.log[-1], MachineEnded)


def test_a_group_that_ends_gives_back_what_its_members_gave_away() -> None:
    """A member's child returns its part to the member, and that to whoever spawned the group."""
    room = Room()
    top = room.spawn("function", "top", wallet=Money(8 * CENT))
    member = ProcessSpec("function", wallet=Money(4 * CENT))
    room.step(Spawn(GroupSpec(RestartRule(max_restarts=0), {"m": member}), "team", top))
    room.spawn("agent", "kid", spawner="top/team/m", wallet=Money(2 * CENT))
    room.step(SendExitSignal("top/team/m", BOOM))
    assert list(room.state.wallets) == ["top"]
    assert room.state.wallets["top"].held == 0


def test_what_a_group_left_under_way_is_forgotten_when_it_lands() -> None:
    """Although the group was started again, with children of the same names."""
    inner = group("function", max_restarts=0)
    room = Room()
    room.step(Spawn(GroupSpec(RestartRule(), {"inner": inner}), "team"))
    room.ask("team/inner/function", "x")
    room.step(SendExitSignal("team/inner/function", BOOM))
    assert list(room.state.processes) == ["team/inner/function", "team/inner#2/function"]
    room.answer(EffectCancelled(), room.only(RunCoroutine))
    assert list(room.state.processes) == ["team/inner#2/function"]


def test_no_patience_at_all_does_not_stop_the_program() -> None:
    """A process that is to be told of as stuck at once is told of once a millisecond."""
    room = Room()
    path = room.spawn("function", stuck_after_ms=0)
    room.ask(path, "x")
    room.wait(3)
    assert len(room.news(ProcessStuck)) == 3


def test_a_group_is_watched_like_a_process() -> None:
    """Its monitor brings one Down, when all of it is gone."""
    room = Room()
    room.step(Spawn(group("counter", "service"), "team"))
    room.step(Monitor("team"))
    room.step(TerminateProcess("team"))
    assert not room.news(Down)
    room.answer(EffectCancelled(), room.only(RunCoroutine))
    assert [down.target for down in room.news(Down)] == ["team"]


def test_what_a_reducer_heard_is_a_record_after_a_restore() -> None:
    """Also when the letter waited in a mailbox that went through JSON."""
    seen: list[Any] = []

    def listener(state: Any, message: Any) -> tuple[Any, list[Any]]:
        seen.append(message)
        return state, [AskProcess("agent", Prompt((Text("?"),)), "q")] if message == "go" else []

    room = Room({**CODE, "listener": ReducerBody(listener)})
    room.spawn("agent")
    room.ask(room.spawn("listener"), "go")
    mailbox = room.state.processes["listener"].mailbox
    assert mailbox is not None
    room.answer(says("yes"))
    assert isinstance(seen[-1], ResultMessage)
    incoming = from_json(ProcessMessage, to_json(system_message(ResultMessage("q", Returned(1)))))
    assert incoming.content == ResultMessage("q", Returned(1))
