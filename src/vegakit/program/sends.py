"""Agents: each message is a send, which runs one turn as a part of the program (pure).

    message ─▶ part of the wallet ─▶ Turn ─ AskModel ─▶ guard ─ fits? ─▶ effect ─▶ outcome ─▶ Turn …
                                      └─── CallTools ──▶ effects, at once ────────────┘
                                      └─── Finished, Failed ─▶ commit, answer, give back the part

An agent without memory answers many messages at once, each in its own conversation. An agent with
memory answers them in turn, and adds a conversation to its memory when the answer is committed.
"""

from typing import TypeVar, cast

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


class SendWorker(Worker):
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
        send = (process.sends or {}).get(flight.message_id)
        if send is None:
            return
        process.since_ms = self._core.now
        if flight.index >= 0:
            came, key = tool_outcome(outcome), flight.effect.key
            cause = (key, *came.cause)
            self._on_tool(path, process, flight.message_id, send, flight.index, came, cause)
        else:
            self._on_model(path, process, send, flight, outcome)

    def settle(
        self, path: str, process: ProcessRecord, flight: InFlightEffect, outcome: EffectOutcome
    ) -> None:
        self._budgets.settle(path, process, flight, outcome)

    def on_timer(self, path: str, process: ProcessRecord, message_id: int) -> None:
        """Handle a timer, also one that an earlier incarnation set for the same message."""
        send = (process.sends or {}).get(message_id)
        if send is not None and send.call is not None and not self._is_calling(process, message_id):
            self._issue(path, process, message_id, send, send.call)

    def _is_calling(self, process: ProcessRecord, message_id: int) -> bool:
        effects_in_flight = (
            self._core.state.effects_in_flight[key] for key in process.in_flight or ()
        )
        here = process.generation, message_id
        return any((flight.generation, flight.message_id) == here for flight in effects_in_flight)

    def drop(self, path: str, process: ProcessRecord, message_id: int) -> None:
        send = (process.sends or {}).get(message_id)
        if send is not None:
            self._give_up(path, process, message_id, send)
            self._close(process, message_id)

    def abandon(self, path: str, process: ProcessRecord) -> None:
        for message_id, send in (process.sends or {}).items():
            send.prior_attempts.spent += self._budgets.spent(path, send)
            self._give_up(path, process, message_id, send)
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
        self._go_on(
            path, process, message_id, send, turn.start(prompt.parts, history, count=body.count)
        )

    def _go_on(
        self,
        path: str,
        process: ProcessRecord,
        message_id: int,
        send: Send,
        action: TurnAction,
        cause: tuple[EffectKey, ...] = (),
    ) -> None:
        """Carry out an action of the turn. `cause` are the effects whose outcomes led to it. If the
        turn fails because of them, nothing was asked after them, so they can be asked again."""
        match action:
            case AskModel() | Summarise():
                self._ask_model(path, process, message_id, send, action)
            case CallTools():
                self._call_tools(path, process, message_id, send, action, cause)
            case Finished():
                self._finish(path, process, message_id, send, action)
            case TurnFailed(error, reason):
                self._fail(
                    path, process, message_id, send, MessageFailed(error, reason, cause=cause)
                )

    def _ask_model(
        self,
        path: str,
        process: ProcessRecord,
        message_id: int,
        send: Send,
        action: AskModel | Summarise,
    ) -> None:
        body, request, step = self._body(process), action.request, action.step
        if body.price is None:
            raise BugError(f"{request.model} has no price, so its cost cannot be capped")
        tokens, most = action.tokens, request.settings.max_tokens
        retry = start_retry(
            body.retry, self._core.now, deadline_ms=self._deadline(process, message_id)
        )
        retry.attempts += send.prior_attempts.calls.get(step, 0)
        send.call = Call(step, request, retry, worst_case(body.price, tokens, most), tokens + most)
        send.pieces = ()
        self._issue(path, process, message_id, send, send.call)

    def _issue(
        self, path: str, process: ProcessRecord, message_id: int, send: Send, call: Call
    ) -> None:
        body, who = self._body(process), f"{path}|{message_id}"
        if (asked := call.retry.attempts - 1) >= body.retry.max_attempts:
            self._on_refused(path, process, message_id, send, attempts_exhausted(path, asked))
            return
        verdict = self._guards.enter(self._guard(process), body, who, call.tokens)
        if isinstance(verdict, WaitUntil):
            self._core.wake_at(verdict.until_ms, TimerKind.SEND, path, message_id)
            return
        if isinstance(verdict, MessageFailed):
            self._on_refused(path, process, message_id, send, verdict)
            return
        if (short := self._budgets.hold(path, send, call.worst_case)) is not None:
            self._guards.leave(self._guard(process), who, verdict)
            self._on_refused(path, process, message_id, send, short)
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

    def _on_model(
        self,
        path: str,
        process: ProcessRecord,
        send: Send,
        flight: InFlightEffect,
        outcome: EffectOutcome,
    ) -> None:
        call, message_id, body = send.call, flight.message_id, self._body(process)
        if call is None:
            raise BugError(f"{path} got the answer to a call that it did not make")
        self._guards.leave(self._guard(process), f"{path}|{message_id}", call.permit, outcome)
        turn = send.turn
        send.pieces = outcome.pieces if isinstance(outcome, Answered | Failed) else ()
        match outcome:
            case Answered(value) if turn.phase is TurnPhase.SUMMARISING:
                action = turn.on_summary(as_record(ModelReply, value), count=body.count)
            case Answered(value):
                reply = as_record(ModelReply, value)
                action = turn.on_reply(reply, _check(send, body), count=body.count)
            case Failed() | Unknown() if not send.pieces and self._try_again(
                path, message_id, send, call, outcome
            ):
                if self._core.speculates(process, message_id) is not None:
                    # The next attempt is made because this one failed. A resumed run can find the
                    # outcome of the next only if it finds this one too.
                    self._core.out.append(Commit(flight.effect.key))
                return
            case Failed() | Refused() | Unknown():
                action = turn.on_model_failed(outcome)
            case EffectCancelled() | Crashed():
                action = TurnFailed("Cancelled", "the call was cancelled")
        send.call = None
        self._go_on(path, process, message_id, send, action, (flight.effect.key,))

    def _try_again(
        self, path: str, message_id: int, send: Send, call: Call, outcome: Failed | Unknown
    ) -> bool:
        """Decide whether to retry a call. The host has already retried what it knows to be
        unbilled."""
        now = self._core.now
        if isinstance(outcome, Unknown):
            if not (outcome.again or may_resend(call.retry.rule)):
                return False
            uncount_attempt(send.prior_attempts, call.step)
            at_ms = now
        else:
            if outcome.final:
                return False
            call.retry.attempts += outcome.attempts - 1
            verdict = call.retry.on_failure(
                outcome.error_class,
                now,
                draw(f"{path}|{message_id}|{call.step}|{call.occurrence}"),
                phase=outcome.phase,
                retry_after_ms=outcome.retry_after_ms,
            )
            if isinstance(verdict, GiveUp):
                return False
            at_ms = verdict.at_ms
        call.occurrence += 1
        self._core.wake_at(at_ms, TimerKind.SEND, path, message_id)
        return True

    def _on_refused(
        self, path: str, process: ProcessRecord, message_id: int, send: Send, failure: MessageFailed
    ) -> None:
        failed = send.turn.on_model_failed(Refused(failure.error, failure.reason))
        self._fail(path, process, message_id, send, MessageFailed(failed.error, failed.reason))

    def _call_tools(
        self,
        path: str,
        process: ProcessRecord,
        message_id: int,
        send: Send,
        action: CallTools,
        cause: tuple[EffectKey, ...],
    ) -> None:
        failure = repeated_call(send, action.calls, self._core.state.bounds.repeats)
        if failure is not None:
            failure = msgspec.structs.replace(failure, cause=cause)
            self._fail(path, process, message_id, send, failure)
            return
        deadline_ms, ask = (
            self._deadline(process, message_id),
            self._listener(process, message_id, send),
        )
        for plan in action.calls if ask else ():
            began = ToolBegan(ask, plan.call.name, plan.call.arguments, plan.index)
            self._core.out.append(began)
        for index, failed in self._tools.start(
            path, process, message_id, send, action, deadline_ms
        ):
            self._on_tool(path, process, message_id, send, index, failed)

    def on_result(self, path: str, process: ProcessRecord, ask: str, outcome: Outcome) -> None:
        """Handle the result of a tool that is written in Vega, or of a program that the model
        wrote."""
        message_id, _, index = ask.partition(".")
        send = (process.sends or {}).get(int(message_id))
        if send is not None:
            process.since_ms = self._core.now
            came = self._tools.outcome_of(path, ask, outcome)
            cause = outcome.cause if isinstance(outcome, MessageFailed) else ()
            self._on_tool(path, process, int(message_id), send, int(index), came, cause)

    def _on_tool(
        self,
        path: str,
        process: ProcessRecord,
        message_id: int,
        send: Send,
        index: int,
        outcome: ToolOutcome,
        cause: tuple[EffectKey, ...] = (),
    ) -> None:
        send.outcomes = send.outcomes | {index: outcome}
        send.failed += cause if outcome.is_error else ()
        if ask := self._listener(process, message_id, send):
            self._core.out.append(ToolEnded(ask, send.turn.tool_name(index), outcome, index))
        if len(send.outcomes) == send.due:
            body = self._body(process)
            action = send.turn.on_tools(send.outcomes, count=body.count)
            self._go_on(path, process, message_id, send, action, send.failed)

    def _listener(self, process: ProcessRecord, message_id: int, send: Send) -> str:
        """Return the ask of the host that may stream this send, or an empty text."""
        taken = self._taken_message(process, message_id) if send.stream or process.once else None
        return "" if taken is None or taken.message.sender else taken.message.ask

    def _finish(
        self, path: str, process: ProcessRecord, message_id: int, send: Send, finished: Finished
    ) -> None:
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
        self._close(process, message_id)
        self._core.ready.append(path)

    def _fail(
        self, path: str, process: ProcessRecord, message_id: int, send: Send, failure: MessageFailed
    ) -> None:
        """Fail the send. That is a result like any other: the sender gets it and the process stays
        alive."""
        self._core.cancel(process, message_id)
        charged = self._budgets.charged(path, send)
        self._give_up(path, process, message_id, send)
        self._end(
            process,
            message_id,
            msgspec.structs.replace(failure, charged=charged, pieces=send.pieces),
        )
        self._close(process, message_id)
        self._core.ready.append(path)

    def _end(
        self, process: ProcessRecord, message_id: int, outcome: Returned | MessageFailed
    ) -> None:
        taken = self._taken_message(process, message_id)
        if taken is not None and process.mailbox is not None:
            process.mailbox.commit(message_id)
            self._core.answer(taken.message, outcome)

    def _close(self, process: ProcessRecord, message_id: int) -> None:
        if process.sends is not None:
            process.sends.pop(message_id, None)
            process.sends = process.sends or None

    def _give_up(self, path: str, process: ProcessRecord, message_id: int, send: Send) -> None:
        """Cancel the send. Calls in flight stay held until they land, but in the wallets instead of
        the part."""
        self._tools.withdraw(path, message_id, send)
        if send.call is not None:
            self._guards.leave(self._guard(process), f"{path}|{message_id}", send.call.permit)
        self._budgets.give_back(path, send)

    def _memory(self, process: ProcessRecord) -> tuple[Message, ...]:
        if process.memory is None:
            return ()
        if isinstance(process.memory, msgspec.Raw):
            return msgspec.json.decode(process.memory, type=Conversation).messages
        return msgspec.convert(process.memory, Conversation).messages

    def _deadline(self, process: ProcessRecord, message_id: int) -> int | None:
        taken = self._taken_message(process, message_id)
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
