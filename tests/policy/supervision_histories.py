"""Random histories of one supervisor: the machine and the model hear the same, say the same.

The host of these histories answers promptly or late, in any order, and repeats itself.
"""

from collections import Counter
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.policy.otp_model import Kid, Model
from vegakit.policy import (
    Backoff,
    ChildRecord,
    ChildType,
    ExitKind,
    ExitReason,
    ExitSupervisor,
    KillChild,
    RestartRule,
    RestartStrategy,
    StartChild,
    StopChild,
    SupervisorAction,
    SupervisorMachine,
    WakeAt,
)
from vegakit.policy.supervision import ChildRefused
from vegakit.records import from_json, to_json

REASONS = {
    "normal": ExitReason(ExitKind.NORMAL),
    "shutdown": ExitReason(ExitKind.SHUTDOWN),
    "shutdown, term": ExitReason(ExitKind.SHUTDOWN, "term"),
    "crash": ExitReason(ExitKind.CRASHED, "boom"),
    "killed": ExitReason(ExitKind.KILLED),
    "escalated": ExitReason(ExitKind.ESCALATED, "crashed(deep)"),
}
NEVER_RESTART = (RestartStrategy.STOP, RestartStrategy.ESCALATE)

met: Counter[tuple[str, str, str]] = Counter()
"""How often a child that was up ended, by strategy, type and reason."""


def coverage_table() -> str:
    """Strategies and types down, reasons across."""
    lines = [f"{'':24}" + "".join(f"{reason:>16}" for reason in REASONS)]
    for strategy in RestartStrategy:
        for kind in ChildType:
            counts = (f"{met[strategy, kind, reason]:>16}" for reason in REASONS)
            lines.append(f"{strategy + ' ' + kind:24}" + "".join(counts))
    return "\n".join(lines)


def never_met() -> list[tuple[str, str, str]]:
    every = [(s, k, r) for s in RestartStrategy for k in ChildType for r in REASONS]
    return [place for place in every if not met[place]]


def any_rule(chance: Random) -> RestartRule:
    strategy = chance.choice(list(RestartStrategy))
    allowed = chance.randint(0, 3)
    window_ms = chance.choice([1, 100, 100, 1000])
    if strategy in NEVER_RESTART or allowed == 0 or chance.random() < 0.5:
        return RestartRule(strategy, allowed, window_ms)
    return RestartRule(strategy, allowed, window_ms, Backoff(10, 2.0, 50))


def any_child(chance: Random) -> tuple[ChildType, int | None]:
    return chance.choice(list(ChildType)), chance.choice([0, 50, None])


MOMENTS = [0, 0, 1, 10, 50, 51, 99, 100, 101, 1001]

chances = st.randoms(use_true_random=True)
"""Evenly spread, where Hypothesis likes to repeat itself."""


class SupervisorAgainstOtp(RuleBasedStateMachine):
    agree = False

    @initialize(prompt=st.booleans(), chance=chances)
    def it_is_declared(self, prompt: bool, chance: Random) -> None:
        self.prompt = prompt
        self.now = self.named = self.fail_next = 0
        self.begin(chance)

    def begin(self, chance: Random) -> None:
        rule, children = any_rule(chance), [any_child(chance) for _ in range(chance.randint(0, 4))]
        self.ended: ExitReason | None = None
        self.lives: dict[tuple[str, int], str] = {}
        self.wakes: list[int] = []
        given = [(self.new_name(), one) for one in children]
        self.machine = SupervisorMachine(rule, {name: ChildRecord(*one) for name, one in given})
        self.model = Model(rule, [Kid(name, *one) for name, one in given])
        self.tell("start", self.now)

    def new_name(self) -> str:
        self.named += 1
        return f"c{self.named}"

    def tell(self, event: str, *facts: object) -> None:
        self.both_say(getattr(self.machine, event)(*facts), getattr(self.model, event)(*facts))

    def both_say(self, said: list[SupervisorAction], expected: list[SupervisorAction]) -> None:
        self.agree = said == expected
        assert said == expected
        for action in said:
            self.carry_out(action)
        if self.prompt:
            self.answer_all(said)

    def carry_out(self, action: SupervisorAction) -> None:
        match action:
            case StartChild(name, generation):
                assert not any(n == name and s != "gone" for (n, _), s in self.lives.items())
                self.lives[name, generation] = "starting"
            case StopChild(name, generation) | KillChild(name, generation):
                assert self.lives[name, generation] != "gone"
            case WakeAt(due_ms):
                self.wakes.append(due_ms)
            case ExitSupervisor(reason):
                assert not self.alive()
                assert self.ended is None
                self.ended = reason
            case _:
                pass

    def answer_all(self, said: list[SupervisorAction]) -> None:
        for action in said:
            match action:
                case StartChild(name, generation) if self.lives[name, generation] == "starting":
                    self.answer_start((name, generation), ok=self.fail_next == 0)
                    self.fail_next = max(0, self.fail_next - 1)
                case StopChild(name, generation) if self.lives[name, generation] != "gone":
                    self.exits((name, generation), "shutdown")
                case _:
                    pass

    def answer_start(self, life: tuple[str, int], ok: bool) -> None:
        self.lives[life] = "up" if ok else "gone"
        if ok:
            self.tell("on_started", *life, self.now)
        else:
            self.tell("on_exited", *life, REASONS["crash"], self.now)

    def exits(self, life: tuple[str, int], reason: str, draw: float = 1.0) -> None:
        child = self.machine.children.get(life[0])
        assert child is not None
        if child.state == "up":
            met[self.machine.rule.strategy, child.type, reason] += 1
        self.lives[life] = "gone"
        self.tell("on_exited", *life, REASONS[reason], self.now, draw)

    def alive(self, *states: str) -> list[tuple[str, int]]:
        return [
            life for life, state in self.lives.items() if state in (states or ("starting", "up"))
        ]

    @rule(times=st.integers(1, 8), chance=chances)
    def life_goes_on(self, times: int, chance: Random) -> None:
        for _ in range(times):
            self.now += chance.choice(MOMENTS)
            self.fail_next += chance.random() < 0.1
            starting, living = self.alive("starting"), self.alive()
            if starting and chance.random() < 0.6:
                self.answer_start(chance.choice(starting), ok=chance.random() < 0.8)
            elif living:
                draw = chance.choice([0.0, 0.5, 1.0])
                self.exits(chance.choice(living), chance.choice(list(REASONS)), draw)
            elif self.machine.due is not None:
                self.wake()
            else:
                self.tell("stop", self.now)
                self.begin(chance)

    @rule(for_nothing=st.booleans())
    def it_is_woken(self, for_nothing: bool) -> None:
        if self.wakes and not for_nothing:
            self.wake()
        self.tell("on_timer", self.now)

    def wake(self) -> None:
        self.wakes.sort()
        self.now = max(self.now, self.wakes.pop(0))
        self.tell("on_timer", self.now)

    @rule(chance=chances)
    def the_family_grows(self, chance: Random) -> None:
        name, one = chance.choice([self.new_name(), *self.machine.children]), any_child(chance)
        said, expected = self.machine.add(name, ChildRecord(*one)), self.model.add(Kid(name, *one))
        assert isinstance(said, ChildRefused) == (expected is None)
        if expected is not None and not isinstance(said, ChildRefused):
            self.both_say(said, expected)

    @rule(chance=chances)
    def the_family_shrinks(self, chance: Random) -> None:
        name = chance.choice(["nobody", *self.machine.children])
        self.tell(chance.choice(["remove", "terminate"]), name, self.now)

    @precondition(lambda self: self.alive("gone"))
    @rule(chance=chances)
    def an_old_life_is_heard_of(self, chance: Random) -> None:
        life = chance.choice(self.alive("gone"))
        self.tell("on_started", *life, self.now)
        self.tell("on_exited", *life, REASONS["crash"], self.now)

    @rule(really=st.sampled_from([False, False, False, True]))
    def it_is_told_to_stop(self, really: bool) -> None:
        if really:
            self.tell("stop", self.now)

    @rule()
    def it_is_stored_and_loaded(self) -> None:
        copy = from_json(SupervisorMachine, to_json(self.machine))
        assert copy == self.machine
        self.machine = copy

    @invariant()
    def they_know_the_same(self) -> None:
        children = self.machine.children.items()
        assert [(n, c.generation, c.is_alive) for n, c in children] == [
            (kid.name, kid.life, kid.alive) for kid in self.model.kids
        ]
        due = (self.machine.due or {}).items()
        assert [(name, one.at_ms, one.cause) for name, one in due] == [
            (alarm.kid.name, alarm.at, alarm.cause) for alarm in self.model.alarms
        ]
        assert self.machine.restarts == self.model.attempts_before_the_last()

    def teardown(self) -> None:
        """Wherever a history stops, the supervisor can still be brought to its end."""
        if not self.agree:
            return
        self.prompt = True
        self.tell("stop", self.now)
        while self.alive():
            self.exits(self.alive()[-1], "killed")
        assert self.ended is not None
        assert self.machine.children == {}
        assert self.machine.due is None
