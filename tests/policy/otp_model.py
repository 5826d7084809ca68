"""OTP's supervisor, told as OTP tells it: a script that stops and starts one child after the other.

The machine under test keeps states, lists and a pruned window. The model keeps every attempt ever
made and runs a generator that stands still wherever the script has to wait for a child; a failure
meanwhile throws the script away for a wider one. It takes the same events and says the same
actions, so both can be driven by one host.

In OTP's words `restart` is one_for_one and `restart_all` one_for_all. Beyond OTP: milliseconds,
the strategies `stop` and `escalate`, giving up with `escalated(cause)` instead of `shutdown`,
starts and stops that take time while other things happen, and a backoff.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from vegakit.policy import (
    ExitKind,
    ExitReason,
    ExitSupervisor,
    KillChild,
    ReportEnded,
    ReportReady,
    RestartRule,
    StartChild,
    StopChild,
    SupervisorAction,
    WakeAt,
)


@dataclass(eq=False)
class Kid:
    name: str
    type: str = "permanent"
    stop_within: int | None = 5_000
    life: int = 0
    status: str = "down"
    unwanted: bool = False
    asked_to_stop: bool = False

    @property
    def alive(self) -> bool:
        return self.status != "down"


@dataclass(eq=False)
class Alarm:
    at: int
    kid: Kid
    cause: ExitReason | None


@dataclass(eq=False)
class Model:
    rule: RestartRule
    kids: list[Kid]
    attempts: list[int] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)
    coming: list[Kid] = field(default_factory=list)
    script: Iterator[None] | None = None
    opened: bool = False
    exit_reason: ExitReason | None = None
    said: list[SupervisorAction] = field(default_factory=list)
    now: int = 0

    # events

    def start(self, now: int) -> list[SupervisorAction]:
        self.coming = list(self.kids)
        self.script = self.bring_up()
        return self.play(now)

    def stop(self, now: int) -> list[SupervisorAction]:
        if self.exit_reason is None:
            self.end(ExitReason(ExitKind.SHUTDOWN))
        return self.play(now)

    def add(self, kid: Kid) -> list[SupervisorAction] | None:
        if self.exit_reason is not None or self.find(kid.name) is not None:
            return None
        self.kids.append(kid)
        if self.script is None:
            self.begin(kid)
        else:
            self.coming.append(kid)
        return self.speak()

    def terminate(self, name: str, now: int) -> list[SupervisorAction]:
        kid = self.find(name)
        if kid is None:
            return []
        self.now = now
        if kid in self.coming:
            self.coming.remove(kid)
        if not kid.alive:
            self.silence(kid)
            if self.is_temporary(kid):
                self.kids.remove(kid)
        elif not kid.unwanted:
            kid.unwanted = True
            self.ask_to_stop(kid)
        return self.play(now)

    def remove(self, name: str, now: int) -> list[SupervisorAction]:
        for kid in self.kids:
            if kid.name == name:
                kid.type = "temporary"
        return self.terminate(name, now)

    def on_started(self, name: str, life: int, now: int) -> list[SupervisorAction]:
        kid = self.find(name)
        if kid is None or kid.life != life or kid.status != "starting" or kid.unwanted:
            return []
        kid.status = "up"
        return self.play(now)

    def on_exited(
        self, name: str, life: int, reason: ExitReason, now: int, draw: float = 1.0
    ) -> list[SupervisorAction]:
        kid = self.find(name)
        if kid is None or kid.life != life or not kid.alive:
            return []
        self.now = now
        was, kid.status = kid.status, "down"
        if kid.unwanted:
            self.left(kid, reason)
        elif was == "starting":
            self.never_came_up(kid, reason, draw)
        else:
            self.fell(kid, reason, draw)
        return self.play(now)

    def on_timer(self, now: int) -> list[SupervisorAction]:
        self.now = now
        ringing = sorted((a for a in self.alarms if a.at <= now), key=lambda a: a.at)
        for alarm in ringing:
            if alarm not in self.alarms:
                continue
            self.alarms.remove(alarm)
            if alarm.cause is None:
                self.said.append(KillChild(alarm.kid.name, alarm.kid.life))
            else:
                self.attempt(alarm.kid, alarm.cause)
        return self.play(now)

    # the rules

    def is_temporary(self, kid: Kid) -> bool:
        return kid.type == "temporary" or self.rule.strategy == "stop"

    def left(self, kid: Kid, reason: ExitReason) -> None:
        """As it should: nothing is counted."""
        self.silence(kid)
        kid.unwanted = kid.asked_to_stop = False
        if self.exit_reason is not None:
            self.kids.remove(kid)
        elif self.is_temporary(kid):
            self.report_and_forget(kid, reason)

    def never_came_up(self, kid: Kid, reason: ExitReason, draw: float) -> None:
        if kid.life > 1:
            if self.rule.strategy != "restart":
                self.coming = []
            self.try_later(kid, reason, draw)
        elif self.opened:
            self.report_and_forget(kid, reason)
        else:
            self.give_up(reason)

    def fell(self, kid: Kid, reason: ExitReason, draw: float) -> None:
        finished = reason.kind in ("normal", "shutdown")
        if self.is_temporary(kid):
            self.report_and_forget(kid, reason)
        elif kid.type == "transient" and finished:
            self.said.append(ReportEnded(kid.name, kid.life, reason))
        elif self.rule.backoff is None:
            self.attempt(kid, reason)
        else:
            self.try_later(kid, reason, draw)

    def try_later(self, kid: Kid, reason: ExitReason, draw: float) -> None:
        wait = 0
        if (backoff := self.rule.backoff) is not None:
            longest = backoff.initial_ms * backoff.factor ** self.attempts_in_window()
            wait = int(draw * min(longest, backoff.max_ms))
        self.set_alarm(Alarm(self.now + wait, kid, reason))

    def attempts_in_window(self) -> int:
        """By the definition, over all of history."""
        return sum(self.now - self.rule.window_ms <= at for at in self.attempts)

    def attempts_before_the_last(self) -> tuple[int, ...]:
        """All that the last attempt was counted with, itself too."""
        return tuple(at for at in self.attempts if self.attempts[-1] - self.rule.window_ms <= at)

    def attempt(self, kid: Kid, cause: ExitReason) -> None:
        self.attempts.append(self.now)
        allowed = 0 if self.rule.strategy == "escalate" else self.rule.max_restarts
        if self.attempts_in_window() > allowed:
            self.give_up(cause)
        elif self.rule.strategy == "restart":
            self.begin(kid)
        else:
            first = 0 if self.rule.strategy == "restart_all" else self.kids.index(kid)
            self.renew(self.kids[first:])

    def renew(self, kids: list[Kid]) -> None:
        self.coming = [kid for kid in kids if kid.life == 0 or not self.is_temporary(kid)]
        self.script = self.take_down_then_up([kid for kid in kids if kid.alive])
        self.make_unwanted(kids)

    def give_up(self, cause: ExitReason) -> None:
        first = cause.detail if cause.kind == "escalated" else str(cause)
        self.end(ExitReason(ExitKind.ESCALATED, first))

    def end(self, reason: ExitReason) -> None:
        self.exit_reason = reason
        self.make_unwanted(self.kids)
        self.kids = [kid for kid in self.kids if kid.alive]
        self.script = self.take_all_down()

    # the scripts

    def take_all_down(self) -> Iterator[None]:
        yield from self.take_down(list(self.kids))
        assert self.exit_reason is not None
        self.said.append(ExitSupervisor(self.exit_reason))

    def take_down_then_up(self, going: list[Kid]) -> Iterator[None]:
        yield from self.take_down(going)
        yield from self.bring_up()

    def take_down(self, going: list[Kid]) -> Iterator[None]:
        for kid in reversed(going):
            if kid.alive and not kid.asked_to_stop:
                self.ask_to_stop(kid)
            while kid.alive:
                yield

    def bring_up(self) -> Iterator[None]:
        while self.coming:
            kid = self.coming.pop(0)
            if kid not in self.kids:
                continue
            self.begin(kid)
            while kid.status == "starting" and not kid.unwanted:
                yield
        if not self.opened:
            self.opened = True
            self.said.append(ReportReady())

    # small steps

    def find(self, name: str) -> Kid | None:
        return next((kid for kid in self.kids if kid.name == name), None)

    def begin(self, kid: Kid) -> None:
        kid.life += 1
        kid.status = "starting"
        self.said.append(StartChild(kid.name, kid.life))

    def ask_to_stop(self, kid: Kid) -> None:
        kid.asked_to_stop = True
        if kid.stop_within is None:
            self.said.append(StopChild(kid.name, kid.life, None))
            return
        deadline = self.now + kid.stop_within
        self.said.append(StopChild(kid.name, kid.life, deadline))
        self.set_alarm(Alarm(deadline, kid, None))

    def make_unwanted(self, kids: list[Kid]) -> None:
        for kid in kids:
            kid.unwanted = kid.alive
            if not kid.alive:
                self.silence(kid)

    def report_and_forget(self, kid: Kid, reason: ExitReason) -> None:
        self.kids.remove(kid)
        self.said.append(ReportEnded(kid.name, kid.life, reason))

    def set_alarm(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)
        self.said.append(WakeAt(alarm.at))

    def silence(self, kid: Kid) -> None:
        self.alarms = [alarm for alarm in self.alarms if alarm.kid is not kid]

    def play(self, now: int) -> list[SupervisorAction]:
        self.now = now
        if self.script is not None and next(self.script, "over") == "over":
            self.script = None
        return self.speak()

    def speak(self) -> list[SupervisorAction]:
        said, self.said = self.said, []
        return said
