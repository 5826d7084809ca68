"""Requests of fibers, carried out by the machine itself or by an effect for the host (pure).

| request              | is granted by                                          | answered       |
|----------------------|--------------------------------------------------------|----------------|
| SendTo               | a message to the process, or to the agent's own        | by its outcome |
| SpawnAgent, LinkBoth | the supervisors and signals of this program            | at once        |
| Watch                | a monitor                                              | by its Down    |
| OpenScope, AskBudget | a session: a part of the wallet of this process        | at once        |
| CallHost             | what the machine knows itself, or an effect:           | at once, or by |
|                      | a timer, a person, a tool                              | its outcome    |
| Print                | news                                                   | –              |
| SpeculativeCall      | as what it is, if there is money for it and all before | by its outcome |
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from vegakit.agent import ToolOutcome
from vegakit.effects import RACE, AskHuman, CallTool, Cancel as CancelEffect, EffectRequest
from vegakit.errors import (
    AgentFailed,
    BudgetExceeded,
    CatchableError,
    CircuitOpen,
    LimitReached,
    Paused,
    RateLimited,
)
from vegakit.events import EffectOutcome
from vegakit.ids import EffectKey, ScopeId
from vegakit.lang import CONFIRM, LIBRARY
from vegakit.money import Money
from vegakit.policy import ExitKind, ExitReason, InterruptKind
from vegakit.program.bodies import NORMAL, FiberRun, keep_printed
from vegakit.program.core import NOW, Core, time_text
from vegakit.program.loop_approvals import LoopConfirmation
from vegakit.program.messages import (
    LOST,
    VOID,
    AgentReply,
    MessageFailed,
    Outcome,
    ProcessMessage,
    Prompt,
    Returned,
    parts_of,
    plain_outcome,
    tool_outcome,
    value_in,
)
from vegakit.program.processes import Incarnations
from vegakit.program.protocol import (
    Printed,
    Spawn,
    Spawned,
    SpawnRefused,
    TraceNote,
    TraceSpanEnded,
)
from vegakit.program.spawn import Spawner, not_a_child, spec_of
from vegakit.program.speculation import Speculation
from vegakit.program.state import (
    InFlightEffect,
    ProcessPhase,
    TimerKind,
    child_path,
    number_child,
    origin_of,
)
from vegakit.program.wallets import BudgetSessions, Wallets
from vegakit.records import digest128
from vegakit.vm import (
    AskBudget,
    CallHost,
    CancelRequest,
    CloseScope,
    CloseSpan,
    End,
    EndProcesses,
    FiberRequest,
    LinkBoth,
    OpenScope,
    Print,
    SendTo,
    SpawnAgent,
    SpeculativeCall,
    SpeculativeCallUsed,
    Watch,
    never_fails,
    restored,
    text_of,
)

# Host calls: library functions that the machine answers itself, and tools, by name and in the form
# of their results.


CATCHABLE = frozenset(kind.__name__ for kind in CatchableError.__subclasses__())

_PYTHON = "python:"


def tool_call(request: CallHost, parameters: Mapping[str, Sequence[str]]) -> CallTool:
    """Return the tool call of a request. `mcp:server.tool(a,,b)` holds the argument names as
    written."""
    if request.function == NOW:
        return CallTool(NOW, {}, ScopeId(""), idempotent=True)
    if request.function == RACE:
        return CallTool(RACE, {"first": request.args[0]}, ScopeId(""), idempotent=True)
    row = LIBRARY.get(request.function)
    name, _, written = request.function.partition("(")
    if row is not None:
        names: Sequence[str] = [parameter.name for parameter in row.params]
        arguments = dict(zip(names, request.args, strict=False))
        return CallTool(f"{name}@{request.rights}", arguments, ScopeId(""), row.idempotent)
    names = parameters.get(name, ())
    if written:
        names = _names(names, written.removesuffix(")").split(","))
    return CallTool(name, dict(zip(names, request.args, strict=False)), ScopeId(""))


def tool_value(tool: str, content: str) -> Any:  # noqa: ANN401
    """Return the value of a result. Library and Python functions return JSON, other tools text."""
    in_json = tool.partition("@")[0] in LIBRARY or tool.startswith(_PYTHON)
    return msgspec.json.decode(content) if in_json else content


def tool_error(content: str) -> tuple[str, str]:
    """Split the text of a failed tool into the name of the error, which comes first, and the
    reason."""
    name, colon, reason = content.partition(": ")
    return (name, reason) if colon and name in CATCHABLE else ("ToolFailed", content)


def _names(known: Sequence[str], written: Sequence[str]) -> list[str]:
    """Return the names of the arguments: as written, or else by position."""
    places = [*known, *written][: len(written)]
    return [name or place for name, place in zip(written, places, strict=True)]


MACHINE_FUNCTIONS: dict[str, Callable[[Core, str, CallHost], Any]] = {
    "process::self": lambda _core, path, _request: {"$": "process", "of": path},
    NOW: lambda core, _path, _request: time_text(core.now),
    RACE: lambda _core, _path, request: request.args[0],
}
_RECORDED = (NOW, RACE)

_NOTES = {
    "trace::span": "span",
    "trace::event": "event",
    "trace::set_attribute": "attribute",
}


def _attribute(form: Any) -> str | int | float | bool | None:  # noqa: ANN401
    """Return the value of an attribute: as it is if every tracing system knows its type, else as
    text."""
    plain = form is None or isinstance(form, str | int | float | bool)
    return form if plain else text_of(restored(form))


# Requests, granted.


_OF_THE_MOMENT = frozenset(
    kind.__name__ for kind in (BudgetExceeded, CircuitOpen, LimitReached, Paused, RateLimited)
)
"""Errors of a speculative call that it may not have when its turn comes."""

_NOT_WANTED = MessageFailed("Cancelled", "nobody waits for the answer any more")

_MOST_ENDS = 150  # in one slice: to end a process is as much work as a hundred instructions

_ASKED = {
    "human::ask": InterruptKind.CLARIFICATION,
    "human::approve": InterruptKind.CONFIRMATION,
    "human::review": InterruptKind.AGENT_REVIEW,  # of pipelines only
}


class FiberRequests:
    """Carries out the requests of fibers: sends, tools, timers, sessions."""

    def __init__(
        self, core: Core, incarnations: Incarnations, spawning: Spawner, wallets: Wallets
    ) -> None:
        self._core = core
        self._incarnations = incarnations
        self._spawner = spawning
        self._wallets = wallets
        self._speculation = Speculation(core, wallets)
        self._sessions = BudgetSessions(core, wallets)
        self._confirmation = LoopConfirmation(core, wallets)
        self._grants: dict[type[FiberRequest], Callable[[FiberRun, Any], bool]] = {
            SendTo: self._send,
            SpawnAgent: self._spawn,
            LinkBoth: self._link,
            Watch: self._watch,
            OpenScope: self._sessions.open,
            CloseScope: self._sessions.close,
            CloseSpan: self._close_span,
            AskBudget: self._sessions.read_budget,
            CallHost: self._call_host,
            Print: self._print,
            SpeculativeCall: self._speculative_call,
            SpeculativeCallUsed: self._taken,
            EndProcesses: self._drop,
            CancelRequest: self._cancel,
            End: self._exit,
        }

    def grant(self, run: FiberRun, requests: Sequence[FiberRequest]) -> bool:
        """Grant requests, those first that the slice before has withheld. Return whether some were
        answered at once, so that the fiber can continue."""
        queue, run.fiber.withheld = [*run.fiber.withheld, *requests], []
        is_answered = False
        for number, fiber_request in enumerate(queue, 1):
            is_answered |= self._grants[type(fiber_request)](run, fiber_request)
            if run.fiber.withheld:
                run.fiber.withheld += queue[number:]
                break
        return is_answered

    def on_answer(self, run: FiberRun, ticket: str, outcome: Outcome) -> None:
        """Hand the answer to a send to its fiber."""
        critical_path, ask_key = run.fiber.critical_path, f"{run.ask_prefix}{ticket}"
        is_speculative = self._speculation.on_answer(
            critical_path, ticket, ask_key, outcome.charged
        )
        answer = run.fiber.answers.get(ticket)
        self._forget(run, ticket)
        match outcome:
            case MessageFailed(error) if outcome == VOID or (
                is_speculative and error in _OF_THE_MOMENT
            ):
                self._speculation.on_given_up(run.path, critical_path, ticket, ask_key)
                run.vm.void(ticket)
            case MessageFailed(error, reason, pieces=pieces, cause=cause):
                _stream(run, ticket, pieces)
                run.vm.fail(ticket, error, reason, cause)
            case Returned(AgentReply(text=text, pieces=pieces)):
                if _stream(run, ticket, pieces if "".join(pieces) == text else (text,)):
                    run.vm.end_stream(ticket)
                else:
                    run.vm.answer(ticket, text if answer is None else value_in(answer, text))
            case Returned(value):
                run.vm.answer(ticket, value)

    def settle(self, run: FiberRun, ticket: str, charged: int = 0) -> None:
        """Note that a request, which was made in its turn, has its result."""
        ask_key = f"{run.ask_prefix}{ticket}"
        self._speculation.on_answer(run.fiber.critical_path, ticket, ask_key, charged)
        self._forget(run, ticket)

    def _forget(self, run: FiberRun, ticket: str) -> None:
        """Forget a send that has a result or was cancelled."""
        run.fiber.answers.pop(ticket, None)
        if (session := run.fiber.inside.pop(ticket, None)) is not None:
            self._wallets.leave(session)

    def on_outcome(self, run: FiberRun, flight: InFlightEffect, outcome: EffectOutcome) -> None:
        """Pass the outcome of an effect to the fiber: the answer of a person, or the result of a
        tool."""
        ask_key = f"{run.ask_prefix}{flight.ask}"
        is_speculative = self._speculation.on_answer(run.fiber.critical_path, flight.ask, ask_key)
        key, request = flight.effect.key, flight.effect.request
        came = plain_outcome(outcome, key)
        if isinstance(came, MessageFailed) and is_speculative and came.error in _OF_THE_MOMENT:
            self._speculation.on_given_up(run.path, run.fiber.critical_path, flight.ask, ask_key)
            run.vm.void(flight.ask)
        elif isinstance(came, MessageFailed):
            run.vm.fail(flight.ask, came.error, came.reason, came.cause)
        elif isinstance(request, AskHuman):
            asks = request.kind == InterruptKind.CLARIFICATION
            run.vm.answer(flight.ask, came.value if asks else came.value is True)
        else:
            assert isinstance(request, CallTool)
            self._on_tool(run, flight.ask, request.tool, tool_outcome(outcome), key)

    def wake(self, run: FiberRun) -> None:
        """Wake the tasks whose sleep is over."""
        self._sessions.retry_budget_queries(run)
        awake = [ticket for ticket, at in run.fiber.sleeping.items() if at <= self._core.now]
        for ticket in awake:
            del run.fiber.sleeping[ticket]
            self._speculation.on_answer(
                run.fiber.critical_path, ticket, f"{run.ask_prefix}{ticket}"
            )
            run.vm.answer(ticket, None)

    def close(self, run: FiberRun) -> None:
        """Cancel everything that the run started, and end the processes that it spawned."""
        self._speculation.on_over(run.path, run.fiber.critical_path)
        # By its own tickets: to look through the asks of all programs would take each of many
        # programs as long as there are others.
        for ticket in [*run.fiber.critical_path.begun]:
            self._withdraw(f"{run.ask_prefix}{ticket}")
        # A machine that came to its end has closed them; one that is given up has not.
        for span in run.vm.spans:
            self._close_span(run, CloseSpan(span, f"{_NOT_WANTED.error}: {_NOT_WANTED.reason}"))
        for path in [p for r in run.fiber.withheld if isinstance(r, EndProcesses) for p in r.paths]:
            self._incarnations.supervisors.end(path, kill=False)
        prefix = run.session(":").removesuffix(":")
        sessions = self._core.state.sessions
        for key in [key for key in reversed(sessions) if key.startswith(prefix)]:
            self._wallets.close_session(key, forgotten=True)

    def _send(self, run: FiberRun, fiber_request: SendTo) -> bool:
        to = self._stateless(run, fiber_request.to) if fiber_request.agent else fiber_request.to
        if isinstance(to, SpawnRefused):
            run.vm.fail(fiber_request.ticket, to.error, to.reason)
            return True
        self._speculation.on_begun(run.fiber.critical_path, fiber_request.ticket)
        if fiber_request.answer is not None:
            run.fiber.answers[fiber_request.ticket] = fiber_request.answer
        prompt = Prompt(
            parts_of(fiber_request.message),
            budget=None if fiber_request.budget is None else Money(fiber_request.budget),
            stream=fiber_request.stream,
            session=run.session(fiber_request.scope),
            answer=fiber_request.answer,
            scope=run.process.scope,
            shared=run.process.shared,
        )
        deadline_ms = (
            None if fiber_request.timeout_ms is None else self._core.now + fiber_request.timeout_ms
        )
        ask = f"{run.message_id}:{fiber_request.ticket}"
        name = self._name(run, fiber_request.ticket)
        if prompt.session:
            run.fiber.inside[fiber_request.ticket] = prompt.session
            self._wallets.enter(prompt.session)
        span = self._span_id(run, fiber_request.span)
        self._core.post(to, ProcessMessage(prompt, ask, run.path, deadline_ms, name, span=span))
        self._incarnations.work(to)  # at once: money is set aside in the order of the program
        return False

    def _name(self, run: FiberRun, ticket: str) -> str:
        """Name a send by its place in the program, not by order of arrival, so that the name is
        equal in every incarnation of the host."""
        taken = None if run.process.mailbox is None else run.process.mailbox.taken(run.message_id)
        name = str(run.message_id) if taken is None else taken.message.name or str(run.message_id)
        return f"{run.path}#{run.process.generation} {name} {ticket}"

    def _stateless(self, run: FiberRun, agent: str) -> str | SpawnRefused:
        """Return the process that answers messages to an agent's name. There is one for each agent,
        which answers many messages at once, each in its own conversation. If it has ended, the next
        one gets another path, so that late outcomes of the old one cannot be taken for its own."""
        state, name = self._core.state, f"{agent}~"
        first = child_path(run.path, run.process.generation, name)
        number = state.numbers.get(first, 0)
        path = first if number < 2 else f"{first}-{number}"
        if path in state.processes and state.processes[path].phase is not ProcessPhase.OVER:
            return path
        number_child(state, first, run.path)
        name = name if number == 0 else f"{name}-{number + 1}"
        spawned = self._spawner.spawn(Spawn(run.body.stateless[agent], name, run.path))
        return spawned.path if isinstance(spawned, Spawned) else spawned

    def _spawn(self, run: FiberRun, fiber_request: SpawnAgent) -> bool:
        if fiber_request.under:
            path = child_path(fiber_request.under, 1, fiber_request.agent)
            is_there = path in self._core.state.processes
            made = Spawned(path) if is_there else not_a_child(fiber_request)
        else:
            spec = spec_of(run.body.spawns[fiber_request.agent], fiber_request)
            session = run.session(fiber_request.scope)
            name = fiber_request.name or self._place_name(run, fiber_request)
            made = self._spawner.spawn(Spawn(spec, name, run.path, session=session))
            self._settle_supervisors()
        if isinstance(made, Spawned):
            run.vm.answer(fiber_request.ticket, {"$": "process", "of": made.path})
        else:
            error = made.error if made.error in CATCHABLE else AgentFailed.__name__
            run.vm.fail(fiber_request.ticket, error, made.reason)
        return True

    def _place_name(self, run: FiberRun, fiber_request: SpawnAgent) -> str:
        """Return the name of a spawned process, empty to number it. Where several tasks may spawn
        at the same time, a number would depend on which call was answered first, and with it the
        names of all effects of the process. There the process is named by its place in the
        program."""
        taken = None if run.process.mailbox is None else run.process.mailbox.taken(run.message_id)
        is_alone = taken is None or not taken.message.sender
        if is_alone and not fiber_request.beside:
            return ""
        return f"{fiber_request.agent}-{digest128(self._name(run, fiber_request.ticket))[:8]}"

    def _settle_supervisors(self) -> None:
        """Let the supervisors finish, so that the next instruction finds the processes it started
        running and those it ended gone."""
        while self._incarnations.supervisors.busy:
            self._incarnations.supervisors.carry_out_next()

    def _link(self, run: FiberRun, fiber_request: LinkBoth) -> bool:
        self._core.state.signals.link(fiber_request.one, fiber_request.other, alive=True)
        return False

    def _watch(self, run: FiberRun, fiber_request: Watch) -> bool:
        state = self._core.state
        signals, process = state.signals, state.processes.get(fiber_request.path)
        alive = fiber_request.path in state.supervisors or (
            process is not None and process.phase is not ProcessPhase.OVER
        )
        ref, news = signals.monitor(run.path, fiber_request.path, alive=alive)
        run.fiber.watching[ref] = fiber_request.ticket
        for signal in news:
            self._incarnations.deliver(signal)
        return False

    def _call_host(self, run: FiberRun, fiber_request: CallHost) -> bool:
        own = MACHINE_FUNCTIONS.get(fiber_request.function)
        recorded = fiber_request.function in _RECORDED and self._core.state.recorded
        if own is not None and not recorded:
            run.vm.answer(fiber_request.ticket, own(self._core, run.path, fiber_request))
            return True
        if fiber_request.function in _NOTES:
            run.vm.answer(fiber_request.ticket, self._note(run, fiber_request))
            return True
        self._speculation.on_begun(run.fiber.critical_path, fiber_request.ticket)
        if fiber_request.function == CONFIRM:
            return self._confirm(run, fiber_request)
        if fiber_request.function in ("process::sleep", "process::yield"):
            self._sleep(run, fiber_request)
        elif fiber_request.function in _ASKED:
            self._ask_person(run, fiber_request)
        else:
            self._call_tool(run, fiber_request)
        return False

    def _note(self, run: FiberRun, fiber_request: CallHost) -> str | None:
        """Write to the trace. Return the id of a new span."""
        kind, args = _NOTES[fiber_request.function], fiber_request.args
        texts = [text_of(restored(arg)) for arg in args]
        ask, span = origin_of(self._core.state, run.path, run.message_id)
        span = self._span_id(run, fiber_request.span) or span
        note = TraceNote(run.path, kind, " = ".join(texts), ask, span)
        if kind == "attribute":
            note = replace(note, key=texts[0], value=_attribute(args[1]))
        elif kind == "span":
            note = replace(note, id=self._span_id(run, fiber_request.ticket))
        self._core.out.append(note)
        return note.id or None

    def _span_id(self, run: FiberRun, ticket: str) -> str:
        """Return the id of a span, by its place in the program: it is the same in every incarnation
        of the host, and known before the span is opened."""
        return ticket and digest128([self._core.state.id, self._name(run, ticket)])[:16]

    def _close_span(self, run: FiberRun, fiber_request: CloseSpan) -> bool:
        ended = TraceSpanEnded(self._span_id(run, fiber_request.span), fiber_request.error)
        self._core.out.append(ended)
        return False

    def _confirm(self, run: FiberRun, fiber_request: CallHost) -> bool:
        """Return whether a loop may begin without an approval."""
        request = self._confirmation.question(run, fiber_request)
        if request is None:
            run.vm.answer(fiber_request.ticket, True)
            return True
        self._start(run, fiber_request, request, deadline_ms=request.expires_ms)
        return False

    def _sleep(self, run: FiberRun, fiber_request: CallHost) -> None:
        due_ms = self._core.now + (fiber_request.args[0]["of"] if fiber_request.args else 0)
        run.fiber.sleeping[fiber_request.ticket] = due_ms
        self._core.wake_at(due_ms, TimerKind.SEND, run.path, run.message_id)

    def _ask_person(self, run: FiberRun, fiber_request: CallHost) -> None:
        question, timeout = fiber_request.args
        # Without a time it waits as long as questions of its kind do.
        expires_ms = None if timeout is None else self._core.now + timeout["of"]
        request = AskHuman(_ASKED[fiber_request.function], question, expires_ms)
        self._start(run, fiber_request, request, deadline_ms=expires_ms)

    def _call_tool(self, run: FiberRun, fiber_request: CallHost) -> None:
        request = tool_call(fiber_request, run.body.parameters)
        run.fiber.touched |= not request.idempotent
        self._start(run, fiber_request, request)

    def _start(
        self,
        run: FiberRun,
        fiber_request: CallHost,
        request: EffectRequest,
        deadline_ms: int | None = None,
    ) -> None:
        self._core.start(
            run.path,
            run.process,
            request,
            f"{fiber_request.function} {fiber_request.ticket}",
            run.message_id,
            ask=fiber_request.ticket,
            span=self._span_id(run, fiber_request.span),
            deadline_ms=deadline_ms,
        )

    def _on_tool(
        self, run: FiberRun, ticket: str, tool: str, outcome: ToolOutcome, key: EffectKey
    ) -> None:
        if outcome.is_error:
            run.vm.fail(ticket, *tool_error(outcome.content), (key, *outcome.cause))
        else:
            run.vm.answer(ticket, tool_value(tool, outcome.content), (key,))

    def _print(self, run: FiberRun, fiber_request: Print) -> bool:
        self._core.out.append(Printed(run.path, fiber_request.text))
        keep_printed(self._core.state.authored.get(run.path), fiber_request.text)
        return False

    def _drop(self, run: FiberRun, fiber_request: EndProcesses) -> bool:
        for path in fiber_request.paths[:_MOST_ENDS]:
            self._incarnations.supervisors.end(path, kill=False)
        self._settle_supervisors()
        if rest := fiber_request.paths[_MOST_ENDS:]:
            run.fiber.withheld.append(EndProcesses(rest))
        return False

    def _speculative_call(self, run: FiberRun, fiber_request: SpeculativeCall) -> bool:
        ticket = fiber_request.of.ticket
        worst = None
        with never_fails("admitting a speculative call"):
            worst = self._speculation.admits(run, fiber_request)
        if worst is None:
            run.vm.decline(ticket)
            return False
        of = fiber_request.of
        to = of.to if isinstance(of, SendTo) and not of.agent else ""
        self._speculation.begin(run, fiber_request, to, worst)
        return self._grants[type(of)](run, of)

    def _taken(self, run: FiberRun, fiber_request: SpeculativeCallUsed) -> bool:
        ask_key = f"{run.ask_prefix}{fiber_request.ticket}"
        void = (run.path, f"{run.message_id}:{fiber_request.ticket}", VOID)
        if void not in self._core.pending_results:
            self._speculation.on_taken(run, ask_key)
            return False
        # The speculative call came to VOID, and that result is still in the queue. The program has
        # reached the call now, so make it again, and drop the queued result: nobody waits for it.
        self._core.pending_results.remove(void)
        self._speculation.on_given_up(
            run.path, run.fiber.critical_path, fiber_request.ticket, ask_key
        )
        self._forget(run, fiber_request.ticket)
        return self._grants[type(fiber_request.of)](run, fiber_request.of)

    def _cancel(self, run: FiberRun, fiber_request: CancelRequest) -> bool:
        ask_key = f"{run.ask_prefix}{fiber_request.ticket}"
        was_speculative = ask_key in self._core.state.speculative
        self._speculation.on_given_up(
            run.path, run.fiber.critical_path, fiber_request.ticket, ask_key
        )
        if was_speculative:
            self._forget(run, fiber_request.ticket)
            # Do not return a result: the program may make the same call, with the same ask, before
            # that result would arrive.
            place = self._core.state.asks.pop(ask_key, None)
            if place is not None:
                self._incarnations.withdraw(place.path, place.message_id, _NOT_WANTED)
        else:
            self._withdraw(ask_key, LOST if fiber_request.final else _NOT_WANTED)
        for key in list(run.process.in_flight or ()):
            flight = self._core.state.effects_in_flight[key]
            if flight.message_id == run.message_id and flight.ask == fiber_request.ticket:
                self._core.out.append(CancelEffect(key))
        return False

    def _exit(self, run: FiberRun, fiber_request: End) -> bool:
        is_normal = fiber_request.reason in ("", "normal")
        crash = run.vm.state.error
        cause = () if crash is None else tuple(map(EffectKey, crash.cause))
        run.exits = (
            NORMAL if is_normal else ExitReason(ExitKind.CRASHED, fiber_request.reason, cause)
        )
        return False

    def _withdraw(self, ask_key: str, why: MessageFailed = _NOT_WANTED) -> None:
        place = self._core.state.asks.get(ask_key)
        if place is not None:
            self._incarnations.withdraw(place.path, place.message_id, why)


def _stream(run: FiberRun, ticket: str, pieces: Sequence[str]) -> bool:
    """Pass recorded pieces to a stream. Return False if the ticket is no stream. The loop gets all
    pieces at once."""
    return bool(pieces) and all(run.vm.chunk(ticket, piece) for piece in pieces)
