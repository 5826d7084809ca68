"""Agents: each message is a send, which runs one turn as a part of the program (pure).

    message ─▶ part of the wallet ─▶ Turn ─ AskModel ─▶ guard ─ fits? ─▶ effect ─▶ outcome ─▶ Turn …
                                      └─── CallTools ──▶ effects, at once ────────────┘
                                      └─── Finished, Failed ─▶ commit, answer, give back the part

An agent without memory answers many messages at once, each in its own conversation. An agent with
memory answers them in turn, and adds a conversation to its memory when the answer is committed.
"""

from typing import NamedTuple, cast

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
    call_failed,
)
from vegakit.conversation import ModelReply, ModelRequest
from vegakit.effects import CallModel, Commit
from vegakit.errors import AgentFailed, BugError, LimitReached, Paused
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
from vegakit.policy import (
    GiveUp,
    GiveUpReason,
    MailboxEntry,
    RetryAt,
    RetryVerdict,
    may_resend,
    start_retry,
)
from vegakit.prices import worst_case
from vegakit.program.bodies import AgentBody, ModelChoice
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
from vegakit.program.money_waits import MoneyWaits
from vegakit.program.paid_repeats import PaidRepeats, lacks_repeat, owed_by
from vegakit.program.processes import Incarnations
from vegakit.program.protocol import (
    CallQueued,
    CallRetried,
    HistoryCompacted,
    ToolBegan,
    ToolEnded,
)
from vegakit.program.send_limits import (
    Guards,
    Memories,
    WaitUntil,
    attempts_exhausted,
    in_full,
    keep_attempts,
    remembered,
    repeated_call,
    resume_attempts,
    tries_before,
    unavailable,
)
from vegakit.program.state import Call, InFlightEffect, ProcessRecord, Send, TimerKind
from vegakit.program.tool_calls import ToolRounds
from vegakit.program.wallets import SendBudgets, Wallets

_SPECULATIVE_PRIORITY = 5  # they wait for the limiters behind all other calls


class OpenSend(NamedTuple):
    """A send that is not over, with the process that makes it and the message that it answers."""

    path: str
    process: ProcessRecord
    message_id: int
    send: Send
    body: AgentBody

    @property
    def who(self) -> str:
        """The name of the send for the guards of its agent."""
        return f"{self.path}|{self.message_id}"

    @property
    def guard(self) -> str:
        """The name of the guards of its agent."""
        return self.body.guard or self.process.spec.body

    @property
    def choice(self) -> ModelChoice:
        """The model that the send asks."""
        return self.body.choices[self.send.model] if self.send.model else self.body.first


class SendWorker(Worker):
    """Runs agents: each message they take is a send, with a turn of its own."""

    def __init__(
        self, core: Core, incarnations: Incarnations, wallets: Wallets, tools: ToolRounds
    ) -> None:
        super().__init__(core)
        self._budgets = SendBudgets(wallets)
        self._waits = MoneyWaits(core, wallets)
        self._guards = Guards(core)
        self._repeats = PaidRepeats(core, incarnations)
        self._tools = tools
        self._memories = Memories()

    def work(self, path: str, process: ProcessRecord) -> None:
        body = self._body(process)
        while not (body.memory and (process.sends or self._waits.is_waiting(path))):
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
        body = self._core.body_of(process)
        agent = body if isinstance(body, AgentBody) else None
        self._budgets.settle(path, process, flight, outcome, agent)

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
        body = self._body(process)
        for message_id, send in (process.sends or {}).items():
            send.attempts.spent += self._budgets.spent(path, send)
            at = OpenSend(path, process, message_id, send, body)
            if send.call is not None:
                send.attempts.note_paid(send.call.step, is_paid=self._is_calling(at))
            self._give_up(at)
            if not send.touched:
                keep_attempts(process, message_id, send.attempts)
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
        *,
        is_first: bool = False,
    ) -> None:
        """Begin a send, unless it has to wait for its part. One that `is_first` has waited."""
        prompt = as_record(Prompt, message.value)
        attempts = resume_attempts(process, message_id)
        held = None if is_first else self._budgets.part(path, body, prompt, attempts.spent)
        if held is not None and self._waits.takes(path, process, message_id, held, prompt.session):
            return
        key = f"{path}#{process.generation}|{message_id}"
        opened = self._budgets.open(path, body, prompt, key, attempts.spent)
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
            attempts=attempts,
            budget_wait_ms=prompt.budget_wait_ms,
            shared=body.shared_with(prompt.shared),
        )
        if process.sends is None:
            process.sends = {}
        process.sends[message_id] = send
        history = (remembered(process) if body.memory else ()) or prompt.history
        speculative = self._core.speculative(message)
        if body.memory and speculative is not None:
            speculative.remembers, speculative.memory = True, process.memory
        at = OpenSend(path, process, message_id, send, body)
        self._go_on(at, turn.start(prompt.parts, history, count=at.choice.count))

    def _open(self, path: str, process: ProcessRecord, message_id: int) -> OpenSend | None:
        send = (process.sends or {}).get(message_id)
        if send is None:
            return None
        return OpenSend(path, process, message_id, send, self._body(process))

    def _go_on(self, at: OpenSend, action: TurnAction, cause: tuple[EffectKey, ...] = ()) -> None:
        """Carry out an action of the turn. `cause` are the effects whose outcomes led to it. If the
        turn fails because of them, nothing was asked after them, so they can be asked again."""
        match action:
            case AskModel() | Summarise():
                self._ask_model(at, action)
            case CallTools():
                self._call_tools(at, action)
            case Finished():
                self._finish(at, action)
            case TurnFailed(error, reason, is_outage):
                self._fail(at, MessageFailed(error, reason, cause=cause, is_outage=is_outage))

    def _ask_model(self, at: OpenSend, action: AskModel | Summarise) -> None:
        at.send.call = call = self._call(at, action.step, action.request, action.tokens)
        at.send.pieces = ()
        tools, paid = bool(at.body.rule.tools), at.send.attempts.paid
        call.owes = owed_by(at.path, action, paid, has_tools=tools)
        self._issue(at, call)

    def _call(self, at: OpenSend, step: int, request: ModelRequest, tokens: int) -> Call:
        """Return a call of the model that this send asks, at the price of that model."""
        choice = at.choice
        if choice.price is None:
            raise BugError(f"{request.model} has no price, so its cost cannot be capped")
        most = request.settings.max_tokens
        return Call(
            step,
            request,
            start_retry(choice.retry, self._core.now, deadline_ms=self._deadline(at)),
            worst_case(choice.price, tokens, most),
            tokens + most,
        )

    def _issue(self, at: OpenSend, call: Call, *, is_first: bool = False) -> None:
        """Start a call, unless it has to wait. One that `is_first` has waited for its money."""
        path, process, message_id, send, body = at
        if (asked := send.attempts.of(call.step, send.model)) >= call.retry.rule.max_attempts:
            failure = attempts_exhausted(path, asked)
            if not self._fall_back(at, call, failure.reason):
                self._on_refused(at, failure)
            return
        if (repeats := self._repeats.take(path, process, message_id, call)) is not True:
            if isinstance(repeats, MessageFailed):
                self._fail(at, repeats)
            return
        waits = not is_first and (send.part.cap is None or send.part.loose)
        needs = call.worst_case, send.session
        if waits and self._waits.takes(path, process, message_id, *needs):
            return
        who, guard, now = at.who, at.guard, self._core.now
        verdict = self._guards.enter(guard, body, who, call.tokens, call.queued_ms)
        if isinstance(verdict, WaitUntil):
            if not call.queued_ms:
                call.queued_ms, wait_ms = now, verdict.until_ms - now
                limit, model = f"agent {guard}", call.request.model
                self._core.out.append(CallQueued(path, model, limit, wait_ms, verdict.reason))
            self._core.wake_at(verdict.until_ms, TimerKind.SEND, path, message_id)
            return
        if isinstance(verdict, MessageFailed):
            self._on_refused(at, verdict)
            return
        if (short := self._budgets.hold(path, send, call.worst_case, body.on_exceed)) is not None:
            self._guards.leave(guard, who, verdict)
            self._on_refused(at, short)
            return
        call.permit, call.queued_ms = verdict, 0
        send.attempts.add(call.step, send.model)
        # A summary is only for the next call, so it is not streamed.
        stream = send.stream and send.turn.phase is not TurnPhase.SUMMARISING
        self._core.start(
            path,
            process,
            CallModel(
                call.request,
                call.worst_case,
                send.scope,
                stream=stream,
                attempts=asked,
                budget_wait_ms=send.budget_wait_ms,
                tokens=call.tokens,
                shared=send.shared,
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

    def is_next(self, path: str, process: ProcessRecord, message_id: int, word: str) -> bool:
        send = (process.sends or {}).get(message_id)
        return send is None or all(index in send.outcomes for index in range(int(word)))

    def release(self) -> bool:
        """Let a parked send go on whose turn has come, and return whether there was one."""
        if (place := self._repeats.next_parked()) is None:
            return self._release_short()
        process = self._core.state.processes.get(place[0])
        at = None if process is None else self._open(place[0], process, place[1])
        if at is not None and at.send.call is not None:
            self._issue(at, at.send.call)
        return True

    def _release_short(self) -> bool:
        """Let a send go on that has waited for money, or refuse it."""
        if (due := self._waits.next()) is None:
            return False
        wait, failure = due
        path = wait.path
        message_id = wait.message_id
        process = self._core.state.processes[path]
        entry = self._taken_message(process, message_id)
        opened = self._open(path, process, message_id)
        if opened is not None and failure is not None:
            self._on_refused(opened, failure)
        elif opened is not None and opened.send.call is not None:
            self._issue(opened, opened.send.call, is_first=True)
        elif failure is not None:
            self._end(process, message_id, failure)
        elif entry is not None:
            body = self._body(process)
            self._begin(path, process, body, message_id, entry.message, is_first=True)
        self._core.ready.append(path)
        return True

    def _on_model(self, at: OpenSend, flight: InFlightEffect, outcome: EffectOutcome) -> None:
        send, call, turn = at.send, at.send.call, at.send.turn
        if call is None:
            raise BugError(f"{at.path} got the answer to a call that it did not make")
        self._guards.leave(at.guard, at.who, call.permit, outcome)
        send.attempts.on_outcome(call.step, send.model, outcome)
        send.pieces = outcome.pieces if isinstance(outcome, Answered | Failed) else ()
        match outcome:
            case Answered(value) if turn.phase is TurnPhase.SUMMARISING:
                action = turn.on_summary(as_record(ModelReply, value), count=at.choice.count)
                self._tell_compaction(at)
            case Answered(value):
                reply = as_record(ModelReply, value)
                action = turn.on_reply(reply, _check(send, at.body), count=at.choice.count)
            case Failed() | Refused() | Unknown() if (
                call.retry.rule.speak_again or not send.pieces
            ) and self._ask_again(at, call, flight.effect.key, outcome):
                return
            case Failed() | Refused() | Unknown():
                failed = turn.on_model_failed(outcome)
                reason = in_full(f"{failed.reason}{tries_before(outcome, send, call)}", call)
                action = msgspec.structs.replace(failed, reason=reason)
            case EffectCancelled() | Crashed():
                action = TurnFailed("Cancelled", "the call was cancelled")
        send.call = None
        # An answer is kept; where every model failed, a run that goes on asks again from the first.
        arrived = isinstance(outcome, Answered) and _is_bound(action)
        self._go_on(at, action, () if arrived else (*call.given_up, flight.effect.key))

    def _ask_again(
        self, at: OpenSend, call: Call, key: EffectKey, outcome: Failed | Refused | Unknown
    ) -> bool:
        """Ask the same model once more, or the next one of the agent; or return False."""
        verdict = self._verdict(at, call, outcome)
        reason = in_full(
            f"{call_failed(outcome).reason}{tries_before(outcome, at.send, call)}", call
        )
        owes = lacks_repeat(outcome, reason, (*call.given_up, key))
        if isinstance(verdict, RetryAt):
            self._commit(at, key)
            call.occurrence += 1
            call.owes = owes or call.owes
            self._core.wake_at(verdict.at_ms, TimerKind.SEND, at.path, at.message_id)
            self._tell_retry(at, call, outcome, verdict)
            return True
        # That no time was left for a retry is known by this host alone, unless the outcome says so:
        # a run that goes on could decide otherwise, and not find the answer of the next model.
        if verdict.reason is GiveUpReason.DEADLINE or not (why := unavailable(outcome)):
            return False
        return self._fall_back(at, call, why, key, owes)

    def _tell_retry(self, at: OpenSend, call: Call, outcome: object, verdict: RetryAt) -> None:
        if isinstance(outcome, Failed):
            waits = call.retry.rule.max_attempts, verdict.at_ms - self._core.now
            facts = call.request.model, outcome.reason, verdict.attempt, *waits
            self._core.out.append(CallRetried(at.path, *facts))

    def _verdict(
        self, at: OpenSend, call: Call, outcome: Failed | Refused | Unknown
    ) -> RetryVerdict:
        """Decide whether to retry a call. The host has already retried what it knows to be
        unbilled."""
        now, attempts, place = self._core.now, at.send.attempts, (call.step, at.send.model)
        match outcome:
            case Unknown(again=again):
                if not (again or may_resend(call.retry.rule)):
                    return GiveUp(GiveUpReason.CLASS)
                attempts.add(*place, -1)
                return RetryAt(now, attempts.of(*place) + 1, reserve_again=True)
            case Refused():
                return GiveUp(GiveUpReason.CLASS)
            case Failed(final=True):
                return GiveUp(GiveUpReason.BUDGET)
            case Failed():
                return call.retry.on_failure(
                    attempts.of(*place),
                    outcome.error_class,
                    now,
                    draw(f"{at.who}|{call.step}|{call.occurrence}"),
                    phase=outcome.phase,
                    retry_after_ms=outcome.retry_after_ms,
                )

    def _fall_back(
        self,
        at: OpenSend,
        call: Call,
        why: str,
        key: EffectKey | None = None,
        owes: MessageFailed | None = None,
    ) -> bool:
        """Ask the next model of the agent that the request fits, at its own price and with its own
        retries. It is another occurrence at the same place, so that a run that goes on finds the
        failure first, and then the answer."""
        send, deadline_ms = at.send, self._deadline(at)
        if deadline_ms is not None and self._core.now >= deadline_ms:
            return False
        tried = (f"{call.request.model} was asked before and gave no answer: {why}",)
        choices = at.body.choices
        for index in range(send.model + 1, len(choices)):
            choice = choices[index]
            changed = send.turn.change_model(choice.rule, call.request, count=choice.count)
            if changed is None:
                tried += (f"{choice.rule.model} was not asked: the request does not fit it",)
                continue
            if key is not None:
                self._commit(at, key)
            send.model = index
            send.call = following = self._call(at, call.step, *changed)
            following.occurrence = call.occurrence + 1
            following.unavailable = (*call.unavailable, *tried)
            following.given_up = (*call.given_up, *(() if key is None else (key,)))
            following.owes = owes or call.owes
            self._issue(at, following)
            return True
        call.unavailable += tried[1:]
        return False

    def _commit(self, at: OpenSend, key: EffectKey) -> None:
        """Commit a failed call of a speculative send before the next one is made because of it: a
        resumed run can find the outcome of the next only if it finds this one too."""
        if self._core.speculates(at.process, at.message_id) is not None:
            self._core.out.append(Commit(key))

    def _on_refused(self, at: OpenSend, failure: MessageFailed) -> None:
        failed = at.send.turn.on_model_failed(Refused(failure.error, failure.reason))
        call = at.send.call
        reason = failed.reason if call is None else in_full(failed.reason, call)
        cause = () if call is None else call.given_up
        self._fail(at, MessageFailed(failed.error, reason, cause=cause))

    def _call_tools(self, at: OpenSend, action: CallTools) -> None:
        failure = repeated_call(at.send, action.calls, self._core.state.bounds.repeats)
        if failure is not None:
            self._fail(at, failure)
            return
        deadline_ms, ask = self._deadline(at), self._listener(at)
        for plan in action.calls if ask else ():
            call = plan.call
            began = ToolBegan(ask, call.name, call.arguments, plan.index, action.step)
            self._core.out.append(began)
        for index, failed in self._tools.start(*at[:4], action, deadline_ms, ask):
            self._on_tool(at, index, failed)

    def on_result(self, path: str, process: ProcessRecord, ask: str, outcome: Outcome) -> None:
        """Handle the result of a tool that is written in Vega, or of a program that the model
        wrote."""
        message_id, _, index = ask.partition(".")
        at = self._open(path, process, int(message_id))
        if at is None:
            return
        process.since_ms = self._core.now
        if isinstance(outcome, MessageFailed) and outcome.error == Paused.__name__:
            self._fail(at, outcome)  # for a person to decide, and not for the model
        else:
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
            name, step = send.turn.tool_name(index), send.turn.spent.steps - 1
            self._core.out.append(ToolEnded(ask, name, outcome, index, step))
        if len(send.outcomes) == send.due:
            action = send.turn.on_tools(send.outcomes, count=at.choice.count)
            self._go_on(at, action, () if _is_bound(action) else send.failed)

    def _tell_compaction(self, at: OpenSend) -> None:
        compacted = at.send.turn.compacted
        if compacted is not None and (ask := self._listener(at)):
            self._core.out.append(HistoryCompacted(ask, compacted))

    def _listener(self, at: OpenSend) -> str:
        """Return the ask of the host that may stream this send, or an empty text."""
        may_stream = at.send.stream or at.process.once
        taken = self._taken_message(at.process, at.message_id) if may_stream else None
        return "" if taken is None or taken.message.sender else taken.message.ask

    def _finish(self, at: OpenSend, finished: Finished) -> None:
        path, process, message_id, send, body = at
        conversation = send.turn.conversation
        if body.memory:
            self._memories.keep(process, conversation)
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
        self._budgets.give_back(path, send, is_answered=True)
        self._end(process, message_id, Returned(reply, charged))
        self._close(at)
        self._core.ready.append(path)

    def _fail(self, at: OpenSend, failure: MessageFailed) -> None:
        """Fail the send. That is a result like any other: the sender gets it and the process stays
        alive."""
        path, process, message_id, send, _ = at
        self._core.cancel(process, message_id)
        charged = self._budgets.charged(path, send)
        self._give_up(at)
        # Only who asks from outside reads it: elsewhere it would stay in the state of the program.
        messages = send.turn.conversation.messages if process.once else ()
        facts = {"charged": charged, "pieces": send.pieces, "messages": messages}
        self._end(process, message_id, msgspec.structs.replace(failure, **facts))
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
            self._guards.leave(at.guard, at.who, at.send.call.permit)
        self._budgets.give_back(at.path, at.send)

    def _deadline(self, at: OpenSend) -> int | None:
        taken = self._taken_message(at.process, at.message_id)
        return None if taken is None else taken.message.deadline_ms

    def _taken_message(
        self, process: ProcessRecord, message_id: int
    ) -> MailboxEntry[ProcessMessage] | None:
        return None if process.mailbox is None else process.mailbox.taken(message_id)

    def _body(self, process: ProcessRecord) -> AgentBody:
        return cast("AgentBody", self._core.body_of(process))


def _is_bound(action: TurnAction) -> bool:
    """Return whether a bound of ours ended the turn. What arrived before it is as good as ever and
    not bought again: a run that goes on comes to the bound again, or past one that was raised."""
    return isinstance(action, TurnFailed) and action.error == LimitReached.__name__


def _check(send: Send, body: AgentBody) -> Check | None:
    answer = send.answer
    return body.check if answer is None else lambda text: problem_of(answer, text)
