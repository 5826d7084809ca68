"""Agents: each message is a send, which runs one turn as a part of the program (pure).

    message ─▶ part of the wallet ─▶ Turn ─ AskModel ─▶ guard ─ fits? ─▶ effect ─▶ outcome ─▶ Turn …
                                      └─── CallTools ──▶ effects, at once ────────────┘
                                      └─── Finished, Failed ─▶ commit, answer, give back the part

An agent without memory answers many messages at once, each in its own conversation. An agent with
memory answers them in turn, and adds a conversation to its memory when the answer is committed.
"""

from typing import NamedTuple, TypeVar, cast

import msgspec

from vegakit.agent import (
    AskModel,
    CallTools,
    Check,
    Finished,
    Summarise,
    ToolOutcome,
    Turn,
    TurnAction,
    TurnFailed,
    TurnPhase,
)
from vegakit.conversation import Conversation, Message, ModelReply
from vegakit.effects import CallModel, Commit
from vegakit.errors import AgentFailed, BugError
from vegakit.events import (
    Answered,
    Crashed,
    EffectCancelled,
    EffectOutcome,
    Failed,
    Refused,
    Unknown,
)
from vegakit.ids import EffectKey
from vegakit.policy import GiveUp, MailboxEntry, may_resend, start_retry
from vegakit.prices import worst_case
from vegakit.program.bodies import AgentBody
from vegakit.program.core import Core, Worker, draw
from vegakit.program.messages import (
    AgentReply,
    MessageFailed,
    Outcome,
    ProcessMessage,
    Prompt,
    Returned,
    as_record,
    output_of,
    problem_of,
    tool_outcome,
)
from vegakit.program.protocol import ToolBegan, ToolEnded
from vegakit.program.send_limits import (
    Guards,
    WaitUntil,
    attempts_exhausted,
    count_attempt,
    keep_attempts,
    repeated_call,
    resume_attempts,
    uncount_attempt,
)
from vegakit.program.state import Call, InFlightEffect, ProcessRecord, Send, TimerKind
from vegakit.program.tool_calls import ToolRounds
from vegakit.program.wallets import SendBudgets, Wallets

T = TypeVar("T")

_SPECULATIVE_PRIORITY = 5
"""Speculative calls wait for the limiters behind all other calls."""


class OpenSend(NamedTuple):
    """A send that is not over, with the process that makes it and the message that it answers."""

    path: str
    process: ProcessRecord
    message_id: int
    send: Send

    @property
    def who(self) -> str:
        """The name of the send for the guards of its agent."""
        return f"{self.path}|{self.message_id}"


class SendWorker(Worker):
    """Runs agents: each message they take is a send, with a turn of its own."""

    def __init__(self, core: Core, wallets: Wallets, tools: ToolRounds) -> None:
        super().__init__(core)
        self._budgets = SendBudgets(wallets)
        self._guards = Guards(core)
        self._tools = tools

    def work(self, path: str, process: ProcessRecord) -> None:
        body = self._body(process)
        while not (body.memory and process.sends):
            taken = self._core.take(path, process)
            if taken is None:
                return
            self._begin(path, process, body, taken.number, taken.message)

    def on_outcome(
        self, path: str, process: ProcessRecord, flight: InFlightEffect, outcome: EffectOutcome
    ) -> None:
        at = self._open(path, process, flight.message_id)
        if at is None:
            return
        process.since_ms = self._core.now
        if flight.index >= 0:
            came, key = tool_outcome(outcome), flight.effect.key
            self._on_tool(at, flight.index, came, (key, *came.cause))
        else:
            self._on_model(at, flight, outcome)

    def settle(
        self, path: str, process: ProcessRecord, flight: InFlightEffect, outcome: EffectOutcome
    ) -> None:
        self._budgets.settle(path, process, flight, outcome)

    def on_timer(self, path: str, process: ProcessRecord, message_id: int) -> None:
        """Handle a timer, also one that an earlier incarnation set for the same message."""
        at = self._open(path, process, message_id)
        if at is not None and at.send.call is not None and not self._is_calling(at):
            self._issue(at, at.send.call)

    def _is_calling(self, at: OpenSend) -> bool:
        effects_in_flight = (
            self._core.state.effects_in_flight[key] for key in at.process.in_flight or ()
        )
        here = at.process.generation, at.message_id
        return any((flight.generation, flight.message_id) == here for flight in effects_in_flight)

    def drop(self, path: str, process: ProcessRecord, message_id: int) -> None:
        at = self._open(path, process, message_id)
        if at is not None:
            self._give_up(at)
            self._close(at)

    def abandon(self, path: str, process: ProcessRecord) -> None:
        for message_id, send in (process.sends or {}).items():
            send.prior_attempts.spent += self._budgets.spent(path, send)
            self._give_up(OpenSend(path, process, message_id, send))
            if not send.touched:
                keep_attempts(process, message_id, send.prior_attempts)
            else:
                failure = MessageFailed(
                    AgentFailed.__name__,
                    f"{path} ended after a tool did what must not be done twice; "
                    "look what was done, then ask again",
                )
                self._end(process, message_id, failure)
        process.sends = None

    def _begin(
        self,
        path: str,
        process: ProcessRecord,
        body: AgentBody,
        message_id: int,
        message: ProcessMessage,
    ) -> None:
        prompt, prior_attempts = (
            as_record(Prompt, message.value),
            resume_attempts(process, message_id),
        )
        key = f"{path}#{process.generation}|{message_id}"
        opened = self._budgets.open(path, body, prompt, key, prior_attempts.spent)
        if isinstance(opened, MessageFailed):
            self._end(process, message_id, opened)
            return
        part, session = opened
        rule = body.rule
        if prompt.answer is not None:
            rule = msgspec.structs.replace(rule, output=output_of(prompt.answer))
        turn = Turn(rule)
        send = Send(
            turn,
            part,
            prompt.scope,
            prompt.stream,
            session,
            prompt.answer,
            prior_attempts=prior_attempts,
            wait_for_budget=prompt.wait_for_budget,
        )
        process.sends = (process.sends or {}) | {message_id: send}
        history = (self._memory(process) if body.memory else ()) or prompt.history
        speculative = self._core.speculative(message)
        if body.memory and speculative is not None:
            speculative.remembers, speculative.memory = True, process.memory
        at = OpenSend(path, process, message_id, send)
        self._go_on(at, turn.start(prompt.parts, history, count=body.count))

    def _open(self, path: str, process: ProcessRecord, message_id: int) -> OpenSend | None:
        send = (process.sends or {}).get(message_id)
        return None if send is None else OpenSend(path, process, message_id, send)

    def _go_on(self, at: OpenSend, action: TurnAction, cause: tuple[EffectKey, ...] = ()) -> None:
        """Carry out an action of the turn. `cause` are the effects whose outcomes led to it. If the
        turn fails because of them, nothing was asked after them, so they can be asked again."""
        match action:
            case AskModel() | Summarise():
                self._ask_model(at, action)
            case CallTools():
                self._call_tools(at, action, cause)
            case Finished():
                self._finish(at, action)
            case TurnFailed(error, reason):
                self._fail(at, MessageFailed(error, reason, cause=cause))

    def _ask_model(self, at: OpenSend, action: AskModel | Summarise) -> None:
        body, send = self._body(at.process), at.send
        request, step = action.request, action.step
        if body.price is None:
            raise BugError(f"{request.model} has no price, so its cost cannot be capped")
        tokens, most = action.tokens, request.settings.max_tokens
        retry = start_retry(body.retry, self._core.now, deadline_ms=self._deadline(at))
        retry.attempts += send.prior_attempts.calls.get(step, 0)
        send.call = Call(step, request, retry, worst_case(body.price, tokens, most), tokens + most)
        send.pieces = ()
        self._issue(at, send.call)

    def _issue(self, at: OpenSend, call: Call) -> None:
        path, process, message_id, send = at
        body, who = self._body(process), at.who
        if (asked := call.retry.attempts - 1) >= body.retry.max_attempts:
            self._on_refused(at, attempts_exhausted(path, asked))
            return
        verdict = self._guards.enter(self._guard(process), body, who, call.tokens)
        if isinstance(verdict, WaitUntil):
            self._core.wake_at(verdict.until_ms, TimerKind.SEND, path, message_id)
            return
        if isinstance(verdict, MessageFailed):
            self._on_refused(at, verdict)
            return
        if (short := self._budgets.hold(path, send, call.worst_case)) is not None:
            self._guards.leave(self._guard(process), who, verdict)
            self._on_refused(at, short)
            return
        call.permit = verdict
        count_attempt(send.prior_attempts, call.step)
        # A summary is only for the next call, so it is not streamed.
        stream = send.stream and send.turn.phase is not TurnPhase.SUMMARISING
        prior_attempts, waits = call.retry.attempts - 1, send.wait_for_budget
        self._core.start(
            path,
            process,
            CallModel(
                call.request,
                call.worst_case,
                send.scope,
                stream,
                prior_attempts,
                waits,
                call.tokens,
            ),
            "send",
            message_id,
            (call.step,),
            occurrence=call.occurrence,
            held=call.worst_case,
            session=send.session,
            deadline_ms=call.retry.deadline_ms,
            priority=body.priority
            + (_SPECULATIVE_PRIORITY if self._core.is_speculative(process, message_id) else 0),
        )

    def _on_model(self, at: OpenSend, flight: InFlightEffect, outcome: EffectOutcome) -> None:
        process, send, body = at.process, at.send, self._body(at.process)
        call, turn = send.call, send.turn
        if call is None:
            raise BugError(f"{at.path} got the answer to a call that it did not make")
        self._guards.leave(self._guard(process), at.who, call.permit, outcome)
        send.pieces = outcome.pieces if isinstance(outcome, Answered | Failed) else ()
        match outcome:
            case Answered(value) if turn.phase is TurnPhase.SUMMARISING:
                action = turn.on_summary(as_record(ModelReply, value), count=body.count)
            case Answered(value):
                reply = as_record(ModelReply, value)
                action = turn.on_reply(reply, _check(send, body), count=body.count)
            case Failed() | Unknown() if not send.pieces and self._try_again(at, call, outcome):
                if self._core.speculates(process, at.message_id) is not None:
                    # The next attempt is made because this one failed. A resumed run can find the
                    # outcome of the next only if it finds this one too.
                    self._core.out.append(Commit(flight.effect.key))
                return
            case Failed() | Refused() | Unknown():
                action = turn.on_model_failed(outcome)
            case EffectCancelled() | Crashed():
                action = TurnFailed("Cancelled", "the call was cancelled")
        send.call = None
        self._go_on(at, action, (flight.effect.key,))

    def _try_again(self, at: OpenSend, call: Call, outcome: Failed | Unknown) -> bool:
        """Decide whether to retry a call. The host has already retried what it knows to be
        unbilled."""
        now = self._core.now
        if isinstance(outcome, Unknown):
            if not (outcome.again or may_resend(call.retry.rule)):
                return False
            uncount_attempt(at.send.prior_attempts, call.step)
            at_ms = now
        else:
            if outcome.final:
                return False
            call.retry.attempts += outcome.attempts - 1
            verdict = call.retry.on_failure(
                outcome.error_class,
                now,
                draw(f"{at.who}|{call.step}|{call.occurrence}"),
                phase=outcome.phase,
                retry_after_ms=outcome.retry_after_ms,
            )
            if isinstance(verdict, GiveUp):
                return False
            at_ms = verdict.at_ms
        call.occurrence += 1
        self._core.wake_at(at_ms, TimerKind.SEND, at.path, at.message_id)
        return True

    def _on_refused(self, at: OpenSend, failure: MessageFailed) -> None:
        failed = at.send.turn.on_model_failed(Refused(failure.error, failure.reason))
        self._fail(at, MessageFailed(failed.error, failed.reason))

    def _call_tools(self, at: OpenSend, action: CallTools, cause: tuple[EffectKey, ...]) -> None:
        failure = repeated_call(at.send, action.calls, self._core.state.bounds.repeats)
        if failure is not None:
            self._fail(at, msgspec.structs.replace(failure, cause=cause))
            return
        deadline_ms, ask = self._deadline(at), self._listener(at)
        for plan in action.calls if ask else ():
            began = ToolBegan(ask, plan.call.name, plan.call.arguments, plan.index)
            self._core.out.append(began)
        for index, failed in self._tools.start(*at, action, deadline_ms):
            self._on_tool(at, index, failed)

    def on_result(self, path: str, process: ProcessRecord, ask: str, outcome: Outcome) -> None:
        """Handle the result of a tool that is written in Vega, or of a program that the model
        wrote."""
        message_id, _, index = ask.partition(".")
        at = self._open(path, process, int(message_id))
        if at is not None:
            process.since_ms = self._core.now
            came = self._tools.outcome_of(path, ask, outcome)
            cause = outcome.cause if isinstance(outcome, MessageFailed) else ()
            self._on_tool(at, int(index), came, cause)

    def _on_tool(
        self, at: OpenSend, index: int, outcome: ToolOutcome, cause: tuple[EffectKey, ...] = ()
    ) -> None:
        send = at.send
        send.outcomes = send.outcomes | {index: outcome}
        send.failed += cause if outcome.is_error else ()
        if ask := self._listener(at):
            self._core.out.append(ToolEnded(ask, send.turn.tool_name(index), outcome, index))
        if len(send.outcomes) == send.due:
            action = send.turn.on_tools(send.outcomes, count=self._body(at.process).count)
            self._go_on(at, action, send.failed)

    def _listener(self, at: OpenSend) -> str:
        """Return the ask of the host that may stream this send, or an empty text."""
        may_stream = at.send.stream or at.process.once
        taken = self._taken_message(at.process, at.message_id) if may_stream else None
        return "" if taken is None or taken.message.sender else taken.message.ask

    def _finish(self, at: OpenSend, finished: Finished) -> None:
        path, process, message_id, send = at
        conversation = send.turn.conversation
        if self._body(process).memory:
            process.memory = msgspec.Raw(msgspec.json.encode(conversation))
        reply = AgentReply(
            finished.output_text,
            conversation,
            len(send.turn.messages),
            finished.usage,
            finished.steps,
            finished.dropped,
            send.pieces,
        )
        charged = self._budgets.charged(path, send)
        self._budgets.give_back(path, send)
        self._end(process, message_id, Returned(reply, charged))
        self._close(at)
        self._core.ready.append(path)

    def _fail(self, at: OpenSend, failure: MessageFailed) -> None:
        """Fail the send. That is a result like any other: the sender gets it and the process stays
        alive."""
        path, process, message_id, send = at
        self._core.cancel(process, message_id)
        charged = self._budgets.charged(path, send)
        self._give_up(at)
        self._end(
            process,
            message_id,
            msgspec.structs.replace(failure, charged=charged, pieces=send.pieces),
        )
        self._close(at)
        self._core.ready.append(path)

    def _end(
        self, process: ProcessRecord, message_id: int, outcome: Returned | MessageFailed
    ) -> None:
        taken = self._taken_message(process, message_id)
        if taken is not None and process.mailbox is not None:
            process.mailbox.commit(message_id)
            self._core.answer(taken.message, outcome)

    def _close(self, at: OpenSend) -> None:
        if at.process.sends is not None:
            at.process.sends.pop(at.message_id, None)
            at.process.sends = at.process.sends or None

    def _give_up(self, at: OpenSend) -> None:
        """Cancel the send. Calls in flight stay held until they land, but in the wallets instead of
        the part."""
        self._tools.withdraw(at.path, at.message_id, at.send)
        if at.send.call is not None:
            self._guards.leave(self._guard(at.process), at.who, at.send.call.permit)
        self._budgets.give_back(at.path, at.send)

    def _memory(self, process: ProcessRecord) -> tuple[Message, ...]:
        if process.memory is None:
            return ()
        if isinstance(process.memory, msgspec.Raw):
            return msgspec.json.decode(process.memory, type=Conversation).messages
        return msgspec.convert(process.memory, Conversation).messages

    def _deadline(self, at: OpenSend) -> int | None:
        taken = self._taken_message(at.process, at.message_id)
        return None if taken is None else taken.message.deadline_ms

    def _taken_message(
        self, process: ProcessRecord, message_id: int
    ) -> MailboxEntry[ProcessMessage] | None:
        return None if process.mailbox is None else process.mailbox.taken(message_id)

    def _guard(self, process: ProcessRecord) -> str:
        return self._body(process).guard or process.spec.body

    def _body(self, process: ProcessRecord) -> AgentBody:
        return cast("AgentBody", self._core.body_of(process))


def _check(send: Send, body: AgentBody) -> Check | None:
    answer = send.answer
    return body.check if answer is None else lambda text: problem_of(answer, text)
