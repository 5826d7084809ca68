"""Tool calls of one answer: by the host, by a fiber, or as a program the model wrote (pure).

    call ─▶ admit ─▶ room in the part of this send? ─▶ a process with its quote as wallet ─▶ message
              └─ RefusedProgram ─▶ the model reads why                                          │
    result, what it printed, what it spent ◀── its process ends, the rest is given back ◀───────┘

Admission is pure, so it is not recorded: a replay finds the source in the recorded answer of the
model and comes to the same decision. The state keeps the source as long as the process exists, so
that a host that loads the state can make the same bodies from it.

A tool that is written in Vega runs in a process below the agent's own: it ends with the agent and
spends from its wallet. So does a program that the model has just written.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import msgspec

from vegakit.agent import CallTools, PlannedCall, ToolOutcome
from vegakit.effects import CallTool
from vegakit.money import Money, format_money
from vegakit.policy import ChildType, mark_untrusted, sanitise
from vegakit.program.bodies import MOST_KEPT, AgentBody, Author
from vegakit.program.core import Core
from vegakit.program.messages import MessageFailed, Outcome, ProcessMessage
from vegakit.program.processes import Incarnations
from vegakit.program.protocol import (
    ProcessSpec,
    ProgramAdmitted,
    ProgramQuote,
    Spawn,
    SpawnRefused,
)
from vegakit.program.refusals import RefusalReason, RefusedProgram, refused
from vegakit.program.spawn import Spawner
from vegakit.program.state import AuthoredProgram, ProcessRecord, Send, child_path
from vegakit.program.wallets import Wallets
from vegakit.records import digest128

if TYPE_CHECKING:
    from vegakit.program.admission import AdmittedProgram

# Programs that the model of an agent writes: admitted here, and run below the agent.


MOST_TRIES = 4
"""How many programs a turn may submit for each one that it may run."""
_NO_SOURCE = "it has no source; send the whole program as text in `source`"
_NO_ARGUMENTS = "`arguments` is an object with the parameters of main by name; send {} for none"


class AuthoredPrograms:
    """Runs the programs that models write as calls of a tool."""

    def __init__(
        self, core: Core, incarnations: Incarnations, spawning: Spawner, wallets: Wallets
    ) -> None:
        self._core = core
        self._incarnations = incarnations
        self._spawner = spawning
        self._wallets = wallets

    def begin(
        self,
        path: str,
        process: ProcessRecord,
        message_id: int,
        step: int,
        plan: PlannedCall,
        deadline_ms: int | None,
        listener: str,
    ) -> ToolOutcome | None:
        """Start a program. Return the outcome for the model at once if it is refused, None if it
        runs: then the `listener`, if there is one, is told what it may spend."""
        body = self._core.body_of(process)
        assert isinstance(body, AgentBody)
        author, send = body.authors[plan.call.name], (process.sends or {})[message_id]
        written = source_in(plan.call.arguments)
        if isinstance(written, str):
            return _outcome(refused(RefusalReason.MISTAKES, written))
        source, language, arguments = written
        admitted = self._admitted(path, send, author, source, language)
        if isinstance(admitted, RefusedProgram):
            return _outcome(admitted)
        prefix = f"{process.spec.body}.{plan.call.name}!{digest128([source, language])[:16]}!"
        main = author.install(prefix, admitted)
        name = self._name(process, message_id, step, plan)
        spec = ProcessSpec(main, ChildType.TEMPORARY, wallet=admitted.cost)
        made = self._spawner.spawn(Spawn(spec, name, path, session=send.session))
        if isinstance(made, SpawnRefused):
            return ToolOutcome(f"{made.error}: {made.reason}", is_error=True)
        word, now = f"{message_id}.{plan.index}", self._core.now
        self._core.state.authored[made.path] = AuthoredProgram(
            process.spec.body,
            plan.call.name,
            prefix,
            source,
            language,
            f"{path}|{word}",
            repeats=self._core.state.bounds.paid_repeats,
            is_capped=admitted.is_capped,
            guesses=author.guesses,
        )
        _pay_as(self._core.state.processes[made.path], send)
        send.programs, send.touched = send.programs + 1, True
        until = now + author.timeout_ms
        until = until if deadline_ms is None else min(until, deadline_ms)
        self._core.post(made.path, ProcessMessage(arguments, word, path, until, name))
        if listener:
            usual = None if admitted.quoted.typical is None else Money(admitted.quoted.typical)
            quoted = ProgramQuote(plan.call.name, admitted.cost, usual, plan.index, step)
            self._core.out.append(ProgramAdmitted(listener, quoted))
        return None

    def on_result(self, path: str, ask: str, outcome: Outcome) -> ToolOutcome | None:
        """Return the outcome of a program, None if the result is not one of a program. What is left
        of its quote is given back before its agent continues."""
        below = self._of(f"{path}|{ask}")
        if below is None:
            return None
        report = self._report(below, outcome)
        self._incarnations.supervisors.end(below, kill=False)
        while self._incarnations.supervisors.busy:
            self._incarnations.supervisors.carry_out_next()
        return report

    def withdraw(self, path: str, message_id: int, send: Send) -> None:
        """End the programs of a send that is given up."""
        for index in range(send.due):
            below = self._of(f"{path}|{message_id}.{index}")
            if below is not None:
                self._incarnations.supervisors.end(below, kill=False)

    def _admitted(
        self, path: str, send: Send, author: Author, source: str, language: str
    ) -> "AdmittedProgram | RefusedProgram":
        send.tries += 1
        if send.programs >= author.most or send.tries > author.most * MOST_TRIES:
            return refused(
                RefusalReason.MANY,
                f"one turn may run {author.most} programs and try {author.most * MOST_TRIES}",
                "answer with what you have",
            )
        if (above := len(list(self._core.authored_around(path)))) > author.nested:
            return refused(
                RefusalReason.NESTED,
                f"programs may run programs {author.nested} deep, and {above} are around this one",
                "answer yourself, or return a list of what is to be asked",
            )
        admitted = author.admit(source, language, self._core.state.bounds.paid_repeats)
        if isinstance(admitted, RefusedProgram):
            return admitted
        from vegakit.program.admission import over_remaining_budget

        return over_remaining_budget(admitted, self._wallets.room(path, send.session)) or admitted

    def _name(self, process: ProcessRecord, message_id: int, step: int, plan: PlannedCall) -> str:
        """Name the process by the place of the call, so that a resumed run finds its recorded
        results."""
        taken = None if process.mailbox is None else process.mailbox.taken(message_id)
        message_name = str(message_id) if taken is None else taken.message.name or str(message_id)
        return f"{plan.call.name}~{digest128([message_name, step, plan.index])[:8]}"

    def _of(self, ask: str) -> str | None:
        authored = self._core.state.authored
        return next((path for path, made in authored.items() if made.ask == ask), None)

    def _report(self, below: str, outcome: Outcome) -> ToolOutcome:
        state = self._core.state
        made, wallet = state.authored[below], self._wallets.of(below)
        report: dict[str, Any] = {}
        if isinstance(outcome, MessageFailed):
            report["error"] = f"{outcome.error}: {outcome.reason}"
        else:
            report["result"] = _result(outcome.value)
        if made.printed:
            report["printed"] = _cut(made.printed)
        # Nothing here may depend on time or on what was speculated: the model's next request holds
        # this text, and a run that goes on must come to the same request.
        account: dict[str, Any] = {"calls": made.calls}
        if wallet is not None:
            spent, quote = wallet.spent - wallet.wasted, wallet.cap or Money(0)
            account |= {"spent": format_money(Money(spent)), "quote": format_money(quote)}
        text = msgspec.json.encode(report | {"account": account}).decode()
        return ToolOutcome(_marked(text), is_error=isinstance(outcome, MessageFailed))


def source_in(given: object) -> tuple[str, str, dict[str, Any]] | str:
    """Return source, language and arguments, or what is wrong with the call."""
    fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    source, language = fields.get("source"), fields.get("language") or ""
    arguments: object = fields.get("arguments") or {}
    if not isinstance(source, str) or not source.strip() or not isinstance(language, str):
        return _NO_SOURCE
    if not isinstance(arguments, dict):
        return _NO_ARGUMENTS
    return source, language, cast("dict[str, Any]", arguments)


def _marked(text: str) -> str:
    return mark_untrusted(sanitise(text))


def _outcome(refusal: RefusedProgram) -> ToolOutcome:
    return ToolOutcome(sanitise(refusal.text), is_error=True)


def _result(value: object) -> object:
    """Return the result as JSON if it is short enough, else the beginning of it as text."""
    plain = _plain(value)
    text = msgspec.json.encode(plain).decode()
    return plain if len(text) <= MOST_KEPT else _cut(text)


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return a value as JSON, with money, durations and files as they are written in source."""
    match value:
        case list():
            return [_plain(item) for item in cast("list[Any]", value)]
        case {"$": "map", "of": pairs}:
            return {key: _plain(item) for key, item in pairs}
        case {"$": _}:
            from vegakit.vm import restored, text_of

            return text_of(restored(value))
        case dict():
            return {key: _plain(item) for key, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _cut(text: str) -> str:
    if len(text) <= MOST_KEPT:
        return text
    return f"{text[:MOST_KEPT]}… ({len(text):,} characters; return or print less)"


# Tool calls of one answer, all started at once.


_NOT_WANTED = MessageFailed("Cancelled", "nobody waits for the answer any more")


class ToolRounds:
    """Carries out the tool calls of one answer of a model."""

    def __init__(
        self, core: Core, incarnations: Incarnations, spawning: Spawner, programs: AuthoredPrograms
    ) -> None:
        self._core = core
        self._programs = programs
        self._incarnations = incarnations
        self._spawner = spawning

    def start(
        self,
        path: str,
        process: ProcessRecord,
        message_id: int,
        send: Send,
        action: CallTools,
        deadline_ms: int | None,
        listener: str,
    ) -> Iterator[tuple[int, ToolOutcome]]:
        """Start the calls. Yield the outcomes of those that could not begin. The `listener`, an ask
        of the host, if there is one, is told what programs may spend."""
        body = self._core.body_of(process)
        assert isinstance(body, AgentBody)
        send.due, send.outcomes, send.failed = len(action.calls), {}, ()
        for plan in action.calls:
            if plan.call.name in body.authors:
                place = path, process, message_id, action.step, plan, deadline_ms, listener
                if (tool_outcome_now := self._programs.begin(*place)) is not None:
                    yield plan.index, tool_outcome_now
                continue
            send.touched |= plan.call.name not in body.idempotent
            if plan.call.name in body.fibers:
                failed = self._begin_fiber(
                    path, process, message_id, action.step, plan, deadline_ms
                )
                if failed is not None:
                    yield plan.index, failed
            else:
                self._start(path, process, message_id, send, action.step, plan, deadline_ms)

    def outcome_of(self, path: str, ask: str, outcome: Outcome) -> ToolOutcome:
        """Return the outcome for the model, between the marks of what is not to be trusted: a tool
        that is written in Vega may pass on text that it read anywhere."""
        if (tool_outcome_now := self._programs.on_result(path, ask, outcome)) is not None:
            return tool_outcome_now
        if isinstance(outcome, MessageFailed):
            return ToolOutcome(_marked(f"{outcome.error}: {outcome.reason}"), is_error=True)
        from vegakit.vm import restored, text_of

        return ToolOutcome(_marked(text_of(restored(outcome.value))))

    def withdraw(self, path: str, message_id: int, send: Send) -> None:
        """Give up the open calls of a send."""
        for index in range(send.due):
            place = self._core.state.asks.get(f"{path}|{message_id}.{index}")
            if place is not None:
                self._incarnations.withdraw(place.path, place.message_id, _NOT_WANTED)
        self._programs.withdraw(path, message_id, send)

    def _start(
        self,
        path: str,
        process: ProcessRecord,
        message_id: int,
        send: Send,
        step: int,
        plan: PlannedCall,
        deadline_ms: int | None,
    ) -> None:
        body = self._core.body_of(process)
        assert isinstance(body, AgentBody)
        name = plan.call.name
        self._core.start(
            path,
            process,
            CallTool(name, plan.call.arguments, send.scope, name in body.idempotent),
            "send",
            message_id,
            (step, plan.index),
            index=plan.index,
            deadline_ms=deadline_ms,
            priority=body.priority,
        )

    def _begin_fiber(
        self,
        path: str,
        process: ProcessRecord,
        message_id: int,
        step: int,
        plan: PlannedCall,
        deadline_ms: int | None,
    ) -> ToolOutcome | None:
        body = self._core.body_of(process)
        assert isinstance(body, AgentBody)
        name = plan.call.name
        below = child_path(path, process.generation, name)
        if below not in self._core.state.processes:
            made = self._spawner.spawn(Spawn(body.fibers[name], name, path))
            if isinstance(made, SpawnRefused):
                return ToolOutcome(f"{made.error}: {made.reason}", is_error=True)
        _pay_as(self._core.state.processes[below], (process.sends or {})[message_id])
        mailbox = process.mailbox
        taken = None if mailbox is None else mailbox.taken(message_id)
        message_name = str(message_id) if taken is None else taken.message.name or str(message_id)
        word = f"{message_id}.{plan.index}"
        name, session = (
            f"{message_name} {step} {plan.index}",
            (process.sends or {})[message_id].session,
        )
        message = ProcessMessage(
            plan.call.arguments, word, path, deadline_ms, name, session=session
        )
        self._core.post(below, message)
        return None


def _pay_as(below: ProcessRecord, send: Send) -> None:
    """Let what a tool or a program asks draw on the budgets of the send that called it."""
    below.scope, below.shared = send.scope, send.shared
