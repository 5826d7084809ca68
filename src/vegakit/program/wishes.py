"""What a fiber wants, granted: by the machine itself, or by an effect for the host.

| want                 | is granted by                                          | answered         |
|----------------------|--------------------------------------------------------|------------------|
| SendTo               | a letter to the process, or to the agent's own     | by its outcome   |
| SpawnAgent, LinkBoth | the families and signals of this program               | at once          |
| Watch                | a monitor                                              | by its Down      |
| OpenScope, AskBudget | a session: a part of the wallet of this process        | at once          |
| CallHost             | what the machine knows itself, or an effect:           | at once, or by   |
|                      | a timer, a person, a tool                              | its outcome      |
| Print                | news                                                   | –                |
| Early                | as what it is, if there is money for it and all before | by its outcome   |
"""

from collections.abc import Callable, Sequence
from typing import Any

from vegakit.agent import ToolOutcome
from vegakit.effects import AskHuman, CallTool, Request
from vegakit.effects import Cancel as CancelEffect
from vegakit.errors import AgentFailed, BudgetExceeded, CircuitOpen, LimitReached, RateLimited
from vegakit.events import EffectOutcome
from vegakit.ids import EffectKey
from vegakit.lang import CONFIRM
from vegakit.money import Money
from vegakit.policy import ExitKind, ExitReason, InterruptKind
from vegakit.program.actions import Printed, Spawned, SpawnRefused
from vegakit.program.ahead import Ahead
from vegakit.program.commands import Spawn
from vegakit.program.confirming import Confirming
from vegakit.program.core import Core
from vegakit.program.host_calls import CATCHABLE, NOW, OWN, tool_call, tool_error, tool_value
from vegakit.program.lives import Lives
from vegakit.program.mail import VOID, Fell, Mail, Outcome, Prompt, Said, Told
from vegakit.program.messages import parts_of
from vegakit.program.outcomes import plain_outcome, tool_outcome
from vegakit.program.paths import child_path
from vegakit.program.purses import Purses
from vegakit.program.running import NORMAL, Run
from vegakit.program.scopes import Scopes
from vegakit.program.sources import keep_printed
from vegakit.program.spawning import Spawning, not_a_child, spec_of
from vegakit.program.state import Flight, Phase, TimerKind
from vegakit.program.typed_answers import value_in
from vegakit.records import digest128
from vegakit.vm import (
    AskBudget,
    CallHost,
    Cancel,
    CloseScope,
    Drop,
    Early,
    End,
    LinkBoth,
    OpenScope,
    Print,
    SendTo,
    SpawnAgent,
    Taken,
    Want,
    Watch,
    never_fails,
)

__all__ = ["Wishes"]

_OF_THE_MOMENT = frozenset(
    kind.__name__ for kind in (BudgetExceeded, CircuitOpen, LimitReached, RateLimited)
)
"""Refusals that a call may not meet when its turn comes."""

_NOT_WANTED = Fell("Cancelled", "nobody waits for the answer any more")

_ASKED = {
    "human::ask": InterruptKind.CLARIFICATION,
    "human::approve": InterruptKind.CONFIRMATION,
}


class Wishes:
    def __init__(self, core: Core, lives: Lives, spawning: Spawning, purses: Purses) -> None:
        self._core = core
        self._lives = lives
        self._spawning = spawning
        self._purses = purses
        self._ahead = Ahead(core, purses)
        self._scopes = Scopes(core, purses)
        self._confirming = Confirming(core, purses)
        self._grants: dict[type[Want], Callable[[Run, Any], bool]] = {
            SendTo: self._send,
            SpawnAgent: self._spawn,
            LinkBoth: self._link,
            Watch: self._watch,
            OpenScope: self._scopes.open,
            CloseScope: self._scopes.close,
            AskBudget: self._scopes.look,
            CallHost: self._call_host,
            Print: self._print,
            Early: self._early,
            Taken: self._taken,
            Drop: self._drop,
            Cancel: self._cancel,
            End: self._exit,
        }

    def grant(self, run: Run, wants: Sequence[Want]) -> bool:
        """Whether something was answered already, so that the fiber can go on."""
        answers = [self._grants[type(want)](run, want) for want in wants]
        return any(answers)

    def on_answer(self, run: Run, ticket: str, outcome: Outcome) -> None:
        course, word = run.fiber.course, f"{run.words}{ticket}"
        is_early = self._ahead.on_answer(course, ticket, word, outcome.charged)
        answer = run.fiber.answers.get(ticket)
        self._forget(run, ticket)
        match outcome:
            case Fell(error) if outcome == VOID or (is_early and error in _OF_THE_MOMENT):
                self._ahead.on_given_up(run.path, course, ticket, word)
                run.vm.void(ticket)
            case Fell(error, reason, pieces=pieces, cause=cause):
                _stream(run, ticket, pieces)
                run.vm.fail(ticket, error, reason, cause)
            case Told(Said(text=text, pieces=pieces)):
                if _stream(run, ticket, pieces if "".join(pieces) == text else (text,)):
                    run.vm.end_stream(ticket)
                else:
                    run.vm.answer(ticket, text if answer is None else value_in(answer, text))
            case Told(value):
                run.vm.answer(ticket, value)

    def _forget(self, run: Run, ticket: str) -> None:
        """Of a send: it is answered, or given up."""
        run.fiber.answers = {t: kind for t, kind in run.fiber.answers.items() if t != ticket}
        if (session := run.fiber.inside.get(ticket)) is not None:
            run.fiber.inside = {t: key for t, key in run.fiber.inside.items() if t != ticket}
            self._purses.leave(session)

    def on_outcome(self, run: Run, flight: Flight, outcome: EffectOutcome) -> None:
        """Of an effect: what a person said, or what a tool gave."""
        word = f"{run.words}{flight.ask}"
        is_early = self._ahead.on_answer(run.fiber.course, flight.ask, word)
        key, request = flight.effect.key, flight.effect.request
        came = plain_outcome(outcome, key)
        if isinstance(came, Fell) and is_early and came.error in _OF_THE_MOMENT:
            self._ahead.on_given_up(run.path, run.fiber.course, flight.ask, word)
            run.vm.void(flight.ask)
        elif isinstance(came, Fell):
            run.vm.fail(flight.ask, came.error, came.reason, came.cause)
        elif isinstance(request, AskHuman):
            asks = request.kind == InterruptKind.CLARIFICATION
            run.vm.answer(flight.ask, (came.value or "") if asks else came.value is True)
        else:
            assert isinstance(request, CallTool)
            self._on_tool(run, flight.ask, request.tool, tool_outcome(outcome), key)

    def wake(self, run: Run) -> None:
        self._scopes.look_again(run)
        awake = [ticket for ticket, at in run.fiber.sleeping.items() if at <= self._core.now]
        for ticket in awake:
            run.fiber.sleeping = {t: at for t, at in run.fiber.sleeping.items() if t != ticket}
            self._ahead.on_answer(run.fiber.course, ticket, f"{run.words}{ticket}")
            run.vm.answer(ticket, None)

    def close(self, run: Run) -> None:
        """Nothing that it set going goes on; what it spawned ends with it."""
        self._ahead.on_over(run.path, run.fiber.course)
        for word in [word for word in self._core.state.asks if word.startswith(run.words)]:
            self._withdraw(word)
        prefix = run.session(":").removesuffix(":")
        sessions = self._core.state.sessions
        for key in [key for key in reversed(sessions) if key.startswith(prefix)]:
            self._purses.close_session(key, forgotten=True)

    def _send(self, run: Run, want: SendTo) -> bool:
        to = self._stateless(run, want.to) if want.agent else want.to
        if isinstance(to, SpawnRefused):
            run.vm.fail(want.ticket, to.error, to.reason)
            return True
        self._ahead.on_begun(run.fiber.course, want.ticket)
        if want.answer is not None:
            run.fiber.answers = {**run.fiber.answers, want.ticket: want.answer}
        prompt = Prompt(
            parts_of(want.message),
            budget=None if want.budget is None else Money(want.budget),
            stream=want.stream,
            session=run.session(want.scope),
            answer=want.answer,
            scope=run.process.scope,
        )
        deadline_ms = None if want.timeout_ms is None else self._core.now + want.timeout_ms
        ask, name = f"{run.letter}:{want.ticket}", self._name(run, want.ticket)
        if prompt.session:
            run.fiber.inside = {**run.fiber.inside, want.ticket: prompt.session}
            self._purses.enter(prompt.session)
        self._core.post(to, Mail(prompt, ask, run.path, deadline_ms, name))
        self._lives.work(to)  # at once: money is set aside in the order of the program
        return False

    def _name(self, run: Run, ticket: str) -> str:
        """By place, not by arrival: the same send has the same name in every life of the host."""
        taken = None if run.process.mailbox is None else run.process.mailbox.taken(run.letter)
        letter = str(run.letter) if taken is None else taken.message.name or str(run.letter)
        return f"{run.path}#{run.process.generation} {letter} {ticket}"

    def _stateless(self, run: Run, agent: str) -> str | SpawnRefused:
        """One for each agent: it answers many at once, each in a conversation of its own. When it
        has ended, the next has another path, as nothing of the one before may be taken for it."""
        state, name = self._core.state, f"{agent}~"
        first = child_path(run.path, run.process.generation, name)
        number = state.numbers.get(first, 0)
        path = first if number < 2 else f"{first}-{number}"
        if path in state.processes and state.processes[path].phase is not Phase.OVER:
            return path
        state.numbers[first] = number + 1
        name = name if number == 0 else f"{name}-{number + 1}"
        spawned = self._spawning.spawn(Spawn(run.body.stateless[agent], name, run.path))
        return spawned.path if isinstance(spawned, Spawned) else spawned

    def _spawn(self, run: Run, want: SpawnAgent) -> bool:
        if want.under:
            path = child_path(want.under, 1, want.agent)
            is_there = path in self._core.state.processes
            made = Spawned(path) if is_there else not_a_child(want)
        else:
            spec = spec_of(run.body.spawns[want.agent], want)
            session = run.session(want.scope)
            name = want.name or self._place_name(run, want)
            made = self._spawning.spawn(Spawn(spec, name, run.path, session=session))
            self._settle_families()
        if isinstance(made, Spawned):
            run.vm.answer(want.ticket, {"$": "process", "of": made.path})
        else:
            error = made.error if made.error in CATCHABLE else AgentFailed.__name__
            run.vm.fail(want.ticket, error, made.reason)
        return True

    def _place_name(self, run: Run, want: SpawnAgent) -> str:
        """Empty where processes are numbered: one after the other. Where others may be spawned at
        the same time a number would depend on which call was answered first, and with it the
        names of all effects of the process; so it is called after its place."""
        taken = None if run.process.mailbox is None else run.process.mailbox.taken(run.letter)
        is_alone = taken is None or not taken.message.sender
        if is_alone and not want.beside:
            return ""
        return f"{want.agent}-{digest128(self._name(run, want.ticket))[:8]}"

    def _settle_families(self) -> None:
        """What follows in the program finds started what it started, and gone what it ended."""
        while self._lives.families.busy:
            self._lives.families.carry_out_next()

    def _link(self, run: Run, want: LinkBoth) -> bool:
        self._core.state.signals.link(want.one, want.other, alive=True)
        return False

    def _watch(self, run: Run, want: Watch) -> bool:
        signals, process = self._core.state.signals, self._core.state.processes.get(want.path)
        alive = want.path in self._core.state.families or (
            process is not None and process.phase is not Phase.OVER
        )
        ref, news = signals.monitor(run.path, want.path, alive=alive)
        run.fiber.watching = {**run.fiber.watching, ref: want.ticket}
        for signal in news:
            self._lives.deliver(signal)
        return False

    def _call_host(self, run: Run, want: CallHost) -> bool:
        own = OWN.get(want.function)
        if own is not None and not (want.function == NOW and self._core.state.recorded):
            run.vm.answer(want.ticket, own(self._core, run.path, want))
            return True
        self._ahead.on_begun(run.fiber.course, want.ticket)
        if want.function == CONFIRM:
            return self._confirm(run, want)
        if want.function in ("process::sleep", "process::yield"):
            self._sleep(run, want)
        elif want.function in _ASKED:
            self._ask_person(run, want)
        else:
            self._call_tool(run, want)
        return False

    def _confirm(self, run: Run, want: CallHost) -> bool:
        """Whether it may begin without being asked for."""
        request = self._confirming.question(run, want)
        if request is None:
            run.vm.answer(want.ticket, True)
            return True
        self._start(run, want, request, deadline_ms=request.expires_ms)
        return False

    def _sleep(self, run: Run, want: CallHost) -> None:
        due_ms = self._core.now + (want.args[0]["of"] if want.args else 0)
        run.fiber.sleeping = {**run.fiber.sleeping, want.ticket: due_ms}
        self._core.wake_at(due_ms, TimerKind.SEND, run.path, run.letter)

    def _ask_person(self, run: Run, want: CallHost) -> None:
        question, timeout = want.args
        expires_ms = self._core.now + timeout["of"]
        request = AskHuman(_ASKED[want.function], question, expires_ms)
        self._start(run, want, request, deadline_ms=expires_ms)

    def _call_tool(self, run: Run, want: CallHost) -> None:
        request = tool_call(want, run.body.parameters)
        run.fiber.touched |= not request.repeatable
        self._start(run, want, request)

    def _start(
        self, run: Run, want: CallHost, request: Request, deadline_ms: int | None = None
    ) -> None:
        self._core.start(
            run.path,
            run.process,
            request,
            f"{want.function} {want.ticket}",
            run.letter,
            ask=want.ticket,
            deadline_ms=deadline_ms,
        )

    def _on_tool(
        self, run: Run, ticket: str, tool: str, outcome: ToolOutcome, key: EffectKey
    ) -> None:
        if outcome.is_error:
            run.vm.fail(ticket, *tool_error(outcome.content), (key, *outcome.cause))
        else:
            run.vm.answer(ticket, tool_value(tool, outcome.content), (key,))

    def _print(self, run: Run, want: Print) -> bool:
        self._core.out.append(Printed(run.path, want.text))
        keep_printed(self._core.state.authored.get(run.path), want.text)
        return False

    def _drop(self, run: Run, want: Drop) -> bool:
        for path in want.paths:
            self._lives.families.end(path, kill=False)
        self._settle_families()
        return False

    def _early(self, run: Run, want: Early) -> bool:
        ticket = want.of.ticket
        worst = None
        with never_fails("admitting a speculative call"):
            worst = self._ahead.admits(run, want)
        if worst is None:
            run.vm.decline(ticket)
            return False
        to = want.of.to if isinstance(want.of, SendTo) and not want.of.agent else ""
        self._ahead.begin(f"{run.words}{ticket}", to, run.session(want.of.scope), worst)
        return self._grants[type(want.of)](run, want.of)

    def _taken(self, run: Run, want: Taken) -> bool:
        word, void = f"{run.words}{want.ticket}", (run.path, f"{run.letter}:{want.ticket}", VOID)
        if void not in self._core.heard:
            self._ahead.on_taken(run, word)
            return False
        # It came to nothing because it was ahead of its turn, and that is on its way. Its turn has
        # come, so it is asked now: nobody would wait for what is told to who looked ahead.
        self._core.heard.remove(void)
        self._ahead.on_given_up(run.path, run.fiber.course, want.ticket, word)
        self._forget(run, want.ticket)
        return self._grants[type(want.of)](run, want.of)

    def _cancel(self, run: Run, want: Cancel) -> bool:
        word = f"{run.words}{want.ticket}"
        was_early = word in self._core.state.early
        self._ahead.on_given_up(run.path, run.fiber.course, want.ticket, word)
        if was_early:
            self._forget(run, want.ticket)
            # Nobody is told: the program may ask under this word again before that came through.
            place = self._core.state.asks.pop(word, None)
            if place is not None:
                self._lives.withdraw(*place, _NOT_WANTED)
        else:
            self._withdraw(word)
        for key in list(run.process.flying or ()):
            flight = self._core.state.flights[key]
            if flight.letter == run.letter and flight.ask == want.ticket:
                self._core.out.append(CancelEffect(key))
        return False

    def _exit(self, run: Run, want: End) -> bool:
        is_normal = want.reason in ("", "normal")
        crash = run.vm.state.error
        cause = () if crash is None else tuple(map(EffectKey, crash.cause))
        run.exits = NORMAL if is_normal else ExitReason(ExitKind.CRASHED, want.reason, cause)
        return False

    def _withdraw(self, word: str) -> None:
        place = self._core.state.asks.get(word)
        if place is not None:
            self._lives.withdraw(*place, _NOT_WANTED)


def _stream(run: Run, ticket: str, pieces: Sequence[str]) -> bool:
    """False where no stream is waited for; the loop sees what is recorded, and all at once."""
    return bool(pieces) and all(run.vm.chunk(ticket, piece) for piece in pieces)
