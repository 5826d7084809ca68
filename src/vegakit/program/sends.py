"""Agents: each message is a send, a fiber of the program that runs one turn.

    letter ─▶ part of the wallet ─▶ Turn ─ AskModel ─▶ guard ─ fits? ─▶ effect ─▶ outcome ─▶ Turn …
                                      └─── CallTools ──▶ effects, at once ────────────┘
                                      └─── Finished, Failed ─▶ commit, answer, give back the part

An agent without memory answers many at once, each in a conversation of its own. One with memory
answers them in turn; what was said joins its memory when the answer is committed.
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
    TurnPhase,
)
from vegakit.agent import (
    Failed as TurnFailed,
)
from vegakit.conversation import Conversation, Message, ModelReply
from vegakit.effects import CallModel, Commit
from vegakit.errors import AgentFailed, BugError
from vegakit.events import Answered, Cancelled, Crashed, EffectOutcome, Failed, Refused, Unknown
from vegakit.ids import EffectKey
from vegakit.policy import GiveUp, Letter, may_resend, start_retry
from vegakit.prices import worst_case
from vegakit.program.actions import ToolBegan, ToolEnded
from vegakit.program.bodies import AgentBody
from vegakit.program.chance import draw
from vegakit.program.circles import runs_in_circles
from vegakit.program.core import Core
from vegakit.program.guards import Guards, Wait
from vegakit.program.mail import Fell, Mail, Outcome, Prompt, Said, Told
from vegakit.program.outcomes import as_record, tool_outcome
from vegakit.program.parts import Parts
from vegakit.program.purses import Purses
from vegakit.program.state import Call, Flight, Process, Send, TimerKind
from vegakit.program.tool_rounds import ToolRounds
from vegakit.program.tries import asked_enough, count, leave, take_up, uncount
from vegakit.program.typed_answers import output_of, problem_of
from vegakit.program.workers import Worker

__all__ = ["SendWorker"]

T = TypeVar("T")

_BEHIND_ALL = 5
"""What is begun early waits for limits behind every call whose turn it is."""


class SendWorker(Worker):
    def __init__(self, core: Core, purses: Purses, tools: ToolRounds) -> None:
        super().__init__(core)
        self._parts = Parts(purses)
        self._guards = Guards(core)
        self._tools = tools

    def work(self, path: str, process: Process) -> None:
        body = self._body(process)
        while not (body.memory and process.sends):
            taken = self._core.take(path, process)
            if taken is None:
                return
            self._begin(path, process, body, taken.number, taken.message)

    def on_outcome(
        self, path: str, process: Process, flight: Flight, outcome: EffectOutcome
    ) -> None:
        send = (process.sends or {}).get(flight.letter)
        if send is None:
            return
        process.since_ms = self._core.now
        if flight.index >= 0:
            came, key = tool_outcome(outcome), flight.effect.key
            cause = (key, *came.cause)
            self._on_tool(path, process, flight.letter, send, flight.index, came, cause)
        else:
            self._on_model(path, process, send, flight, outcome)

    def settle(self, path: str, process: Process, flight: Flight, outcome: EffectOutcome) -> None:
        self._parts.settle(path, process, flight, outcome)

    def on_timer(self, path: str, process: Process, letter: int) -> None:
        """Also one that an earlier life set for the same letter."""
        send = (process.sends or {}).get(letter)
        if send is not None and send.call is not None and not self._is_calling(process, letter):
            self._issue(path, process, letter, send, send.call)

    def _is_calling(self, process: Process, letter: int) -> bool:
        flights = (self._core.state.flights[key] for key in process.flying or ())
        here = process.generation, letter
        return any((flight.generation, flight.letter) == here for flight in flights)

    def drop(self, path: str, process: Process, letter: int) -> None:
        send = (process.sends or {}).get(letter)
        if send is not None:
            self._give_up(path, process, letter, send)
            self._close(process, letter)

    def abandon(self, path: str, process: Process) -> None:
        for letter, send in (process.sends or {}).items():
            send.tried.spent += self._parts.spent(path, send)
            self._give_up(path, process, letter, send)
            if not send.touched:
                leave(process, letter, send.tried)
            else:
                fell = Fell(
                    AgentFailed.__name__,
                    f"{path} ended after a tool did what must not be done twice; "
                    "look what was done, then ask again",
                )
                self._end(process, letter, fell)
        process.sends = None

    def _begin(self, path: str, process: Process, body: AgentBody, letter: int, mail: Mail) -> None:
        prompt, tried = as_record(Prompt, mail.value), take_up(process, letter)
        key = f"{path}#{process.generation}|{letter}"
        opened = self._parts.open(path, body, prompt, key, tried.spent)
        if isinstance(opened, Fell):
            self._end(process, letter, opened)
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
            tried=tried,
            wait_for_budget=prompt.wait_for_budget,
        )
        process.sends = (process.sends or {}) | {letter: send}
        history = (self._memory(process) if body.memory else ()) or prompt.history
        early = self._core.early(mail)
        if body.memory and early is not None:
            early.remembers, early.memory = True, process.memory
        self._go_on(
            path, process, letter, send, turn.start(prompt.parts, history, count=body.count)
        )

    def _go_on(
        self,
        path: str,
        process: Process,
        letter: int,
        send: Send,
        action: TurnAction,
        cause: tuple[EffectKey, ...] = (),
    ) -> None:
        """`cause` are the effects whose outcomes led to this action. Should the turn fail by it,
        nothing was asked after them, so that they can be asked again."""
        match action:
            case AskModel() | Summarise():
                self._ask_model(path, process, letter, send, action)
            case CallTools():
                self._call_tools(path, process, letter, send, action, cause)
            case Finished():
                self._finish(path, process, letter, send, action)
            case TurnFailed(error, reason):
                self._fail(path, process, letter, send, Fell(error, reason, cause=cause))

    def _ask_model(
        self, path: str, process: Process, letter: int, send: Send, action: AskModel | Summarise
    ) -> None:
        body, request, step = self._body(process), action.request, action.step
        if body.price is None:
            raise BugError(f"{request.model} has no price, so its cost cannot be capped")
        tokens, most = action.tokens, request.settings.max_tokens
        retry = start_retry(body.retry, self._core.now, deadline_ms=self._deadline(process, letter))
        retry.attempts += send.tried.calls.get(step, 0)
        send.call = Call(step, request, retry, worst_case(body.price, tokens, most), tokens + most)
        send.pieces = ()
        self._issue(path, process, letter, send, send.call)

    def _issue(self, path: str, process: Process, letter: int, send: Send, call: Call) -> None:
        body, who = self._body(process), f"{path}|{letter}"
        if (asked := call.retry.attempts - 1) >= body.retry.max_attempts:
            self._on_refused(path, process, letter, send, asked_enough(path, asked))
            return
        verdict = self._guards.enter(self._guard(process), body, who, call.tokens)
        if isinstance(verdict, Wait):
            self._core.wake_at(verdict.until_ms, TimerKind.SEND, path, letter)
            return
        if isinstance(verdict, Fell):
            self._on_refused(path, process, letter, send, verdict)
            return
        if (short := self._parts.hold(path, send, call.worst_case)) is not None:
            self._guards.leave(self._guard(process), who, verdict)
            self._on_refused(path, process, letter, send, short)
            return
        call.permit = verdict
        count(send.tried, call.step)
        # A summary is for the next call only: nobody hears it piece by piece.
        stream = send.stream and send.turn.phase is not TurnPhase.SUMMARISING
        tried, waits = call.retry.attempts - 1, send.wait_for_budget
        self._core.start(
            path,
            process,
            CallModel(call.request, call.worst_case, send.scope, stream, tried, waits, call.tokens),
            "send",
            letter,
            (call.step,),
            occurrence=call.occurrence,
            held=call.worst_case,
            session=send.session,
            deadline_ms=call.retry.deadline_ms,
            priority=body.priority + (_BEHIND_ALL if self._core.is_early(process, letter) else 0),
        )

    def _on_model(
        self, path: str, process: Process, send: Send, flight: Flight, outcome: EffectOutcome
    ) -> None:
        call, letter, body = send.call, flight.letter, self._body(process)
        if call is None:
            raise BugError(f"{path} got the answer to a call that it did not make")
        self._guards.leave(self._guard(process), f"{path}|{letter}", call.permit, outcome)
        turn = send.turn
        send.pieces = outcome.pieces if isinstance(outcome, Answered | Failed) else ()
        match outcome:
            case Answered(value) if turn.phase is TurnPhase.SUMMARISING:
                action = turn.on_summary(as_record(ModelReply, value), count=body.count)
            case Answered(value):
                reply = as_record(ModelReply, value)
                action = turn.on_reply(reply, _check(send, body), count=body.count)
            case Failed() | Unknown() if not send.pieces and self._try_again(
                path, letter, send, call, outcome
            ):
                if self._core.speculates(process, letter) is not None:
                    # The next occurrence is asked because of this one: to find that in another
                    # life, this one must be found too.
                    self._core.out.append(Commit(flight.effect.key))
                return
            case Failed() | Refused() | Unknown():
                action = turn.on_model_failed(outcome)
            case Cancelled() | Crashed():
                action = TurnFailed("Cancelled", "the call was cancelled")
        send.call = None
        self._go_on(path, process, letter, send, action, (flight.effect.key,))

    def _try_again(
        self, path: str, letter: int, send: Send, call: Call, outcome: Failed | Unknown
    ) -> bool:
        """What the host knows to be unbilled it has tried again; the rest is decided here."""
        now = self._core.now
        if isinstance(outcome, Unknown):
            if not (outcome.again or may_resend(call.retry.rule)):
                return False
            uncount(send.tried, call.step)
            at_ms = now
        else:
            if outcome.final:
                return False
            call.retry.attempts += outcome.attempts - 1
            verdict = call.retry.on_failure(
                outcome.error_class,
                now,
                draw(f"{path}|{letter}|{call.step}|{call.occurrence}"),
                phase=outcome.phase,
                retry_after_ms=outcome.retry_after_ms,
            )
            if isinstance(verdict, GiveUp):
                return False
            at_ms = verdict.at_ms
        call.occurrence += 1
        self._core.wake_at(at_ms, TimerKind.SEND, path, letter)
        return True

    def _on_refused(self, path: str, process: Process, letter: int, send: Send, fell: Fell) -> None:
        failed = send.turn.on_model_failed(Refused(fell.error, fell.reason))
        self._fail(path, process, letter, send, Fell(failed.error, failed.reason))

    def _call_tools(
        self,
        path: str,
        process: Process,
        letter: int,
        send: Send,
        action: CallTools,
        cause: tuple[EffectKey, ...],
    ) -> None:
        fell = runs_in_circles(send, action.calls, self._core.state.bounds.repeats)
        if fell is not None:
            fell = msgspec.structs.replace(fell, cause=cause)
            self._fail(path, process, letter, send, fell)
            return
        deadline_ms, ask = self._deadline(process, letter), self._listener(process, letter, send)
        for plan in action.calls if ask else ():
            began = ToolBegan(ask, plan.call.name, plan.call.arguments, plan.index)
            self._core.out.append(began)
        for index, failed in self._tools.start(path, process, letter, send, action, deadline_ms):
            self._on_tool(path, process, letter, send, index, failed)

    def on_heard(self, path: str, process: Process, ask: str, outcome: Outcome) -> None:
        """Of a tool that is written in Vega, or of a program that its model wrote."""
        letter, _, index = ask.partition(".")
        send = (process.sends or {}).get(int(letter))
        if send is not None:
            process.since_ms = self._core.now
            came = self._tools.outcome_of(path, ask, outcome)
            cause = outcome.cause if isinstance(outcome, Fell) else ()
            self._on_tool(path, process, int(letter), send, int(index), came, cause)

    def _on_tool(
        self,
        path: str,
        process: Process,
        letter: int,
        send: Send,
        index: int,
        outcome: ToolOutcome,
        cause: tuple[EffectKey, ...] = (),
    ) -> None:
        send.outcomes = send.outcomes | {index: outcome}
        send.failed += cause if outcome.is_error else ()
        if ask := self._listener(process, letter, send):
            self._core.out.append(ToolEnded(ask, send.turn.tool_name(index), outcome, index))
        if len(send.outcomes) == send.due:
            body = self._body(process)
            action = send.turn.on_tools(send.outcomes, count=body.count)
            self._go_on(path, process, letter, send, action, send.failed)

    def _listener(self, process: Process, letter: int, send: Send) -> str:
        """The ask of the host that may hear what this send does; empty if there is none."""
        taken = self._letter(process, letter) if send.stream or process.once else None
        return "" if taken is None or taken.message.sender else taken.message.ask

    def _finish(
        self, path: str, process: Process, letter: int, send: Send, finished: Finished
    ) -> None:
        conversation = send.turn.conversation
        if self._body(process).memory:
            process.memory = msgspec.Raw(msgspec.json.encode(conversation))
        said = Said(
            finished.output_text,
            conversation,
            len(send.turn.said),
            finished.usage,
            finished.steps,
            finished.dropped,
            send.pieces,
        )
        charged = self._parts.charged(path, send)
        self._parts.give_back(path, send)
        self._end(process, letter, Told(said, charged))
        self._close(process, letter)
        self._core.ready.append(path)

    def _fail(self, path: str, process: Process, letter: int, send: Send, fell: Fell) -> None:
        """An answer like another: the asker hears of it, the process lives."""
        self._core.cancel(process, letter)
        charged = self._parts.charged(path, send)
        self._give_up(path, process, letter, send)
        self._end(
            process, letter, msgspec.structs.replace(fell, charged=charged, pieces=send.pieces)
        )
        self._close(process, letter)
        self._core.ready.append(path)

    def _end(self, process: Process, letter: int, outcome: Told | Fell) -> None:
        taken = self._letter(process, letter)
        if taken is not None and process.mailbox is not None:
            process.mailbox.commit(letter)
            self._core.answer(taken.message, outcome)

    def _close(self, process: Process, letter: int) -> None:
        if process.sends is not None:
            process.sends.pop(letter, None)
            process.sends = process.sends or None

    def _give_up(self, path: str, process: Process, letter: int, send: Send) -> None:
        """What is under way stays held, now in the wallets themselves, until it lands."""
        self._tools.withdraw(path, letter, send)
        if send.call is not None:
            self._guards.leave(self._guard(process), f"{path}|{letter}", send.call.permit)
        self._parts.give_back(path, send)

    def _memory(self, process: Process) -> tuple[Message, ...]:
        if process.memory is None:
            return ()
        if isinstance(process.memory, msgspec.Raw):
            return msgspec.json.decode(process.memory, type=Conversation).messages
        return msgspec.convert(process.memory, Conversation).messages

    def _deadline(self, process: Process, letter: int) -> int | None:
        taken = self._letter(process, letter)
        return None if taken is None else taken.message.deadline_ms

    def _letter(self, process: Process, letter: int) -> Letter[Mail] | None:
        return None if process.mailbox is None else process.mailbox.taken(letter)

    def _guard(self, process: Process) -> str:
        return self._body(process).guard or process.spec.body

    def _body(self, process: Process) -> AgentBody:
        return cast("AgentBody", self._core.body_of(process))


def _check(send: Send, body: AgentBody) -> Check | None:
    answer = send.answer
    return body.check if answer is None else lambda text: problem_of(answer, text)
