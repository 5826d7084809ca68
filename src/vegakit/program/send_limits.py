"""Limits of a send besides money: breaker, rate limiter, repetition; and what an agent remembers of
its sends (pure).

Limits are applied in the program, so that the program can catch their errors.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from vegakit.agent import PlannedCall
from vegakit.conversation import Conversation, Message
from vegakit.errors import AgentFailed, CircuitOpen, LimitReached, RateLimited
from vegakit.events import Answered, EffectOutcome, Failed, Refused, Unknown
from vegakit.policy import (
    TRANSIENT,
    Admitted,
    Breaker,
    BreakerChange,
    NeverFits,
    NotYet,
    Permit,
    Queued,
    RateLimiter,
    SlowDown,
    WaitReason,
    describe_long_wait,
    describe_open_breaker,
    describe_oversized_call,
    describe_rate_limit,
)
from vegakit.program.bodies import AgentBody
from vegakit.program.core import Core
from vegakit.program.messages import MessageFailed, as_record
from vegakit.program.protocol import BreakerClosed, BreakerOpened
from vegakit.program.state import Attempts, Call, Guard, ProcessRecord, Send
from vegakit.records import digest128

# The breaker and rate limiter of an agent.


class WaitUntil(Struct, frozen=True):
    """The call may be made then, as far as the limit that it waits for lets anybody know."""

    until_ms: int
    reason: WaitReason


Verdict: TypeAlias = Permit | WaitUntil | MessageFailed | None


class Guards:
    """The limiters and breakers of agents."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def enter(
        self, name: str, body: AgentBody, who: str, tokens: int, queued_ms: int = 0
    ) -> Verdict:
        """Ask the rate limiter and the breaker for a call, which waits since `queued_ms` if that is
        not 0. Return None if the call may be made and the agent has no breaker. In a replay nothing
        is limited: recorded results arrive all at once, although the calls were made over a longer
        time."""
        guard = None if self._core.state.replaying else self._guard(name, body)
        if guard is None:
            return None
        now = self._core.now
        if guard.limiter is not None:
            match guard.limiter.ask(who, now, tokens=tokens, priority=body.priority):
                case Queued(wait_ms) | SlowDown(wait_ms):
                    most_ms = body.max_wait_ms
                    left_ms = None if most_ms is None else (queued_ms or now) + most_ms - now
                    wait = guard.limiter.wait_of(who, tokens, max(1, wait_ms), left_ms)
                    if wait.too_long and most_ms is not None:
                        guard.limiter.release(who)
                        reason = describe_long_wait(f"agent {name}", wait, most_ms)
                        return MessageFailed(RateLimited.__name__, reason)
                    return WaitUntil(now + wait.wait_ms, wait.reason)
                case NotYet(wait_ms):
                    reason = describe_rate_limit(f"agent {name}", wait_ms)
                    return MessageFailed(RateLimited.__name__, reason)
                case NeverFits(wanted, burst):
                    reason = describe_oversized_call(f"agent {name}", wanted, burst)
                    return MessageFailed(RateLimited.__name__, reason)
                case Admitted():
                    pass
        if guard.breaker is None:
            return None
        permit = guard.breaker.admit(now)
        if isinstance(permit, Permit):
            return permit
        self.leave(name, who)
        return MessageFailed(
            CircuitOpen.__name__, describe_open_breaker(f"agent {name}", permit.wait_ms)
        )

    def leave(
        self,
        name: str,
        who: str,
        permit: Permit | None = None,
        outcome: EffectOutcome | None = None,
    ) -> None:
        """Free the place of a call, and tell the breaker how it went."""
        guard = self._core.state.guards.get(name)
        if guard is None:
            return
        if guard.limiter is not None:
            guard.limiter.release(who)
        if guard.breaker is not None and permit is not None:
            change = _report(guard.breaker, permit, outcome, self._core.now)
            if change is not None:
                news = BreakerOpened if change is BreakerChange.OPENED else BreakerClosed
                self._core.out.append(news(f"agent {name}"))

    def _guard(self, name: str, body: AgentBody) -> Guard | None:
        guards = self._core.state.guards
        if name not in guards:
            if body.breaker is None and body.rate is None:
                return None
            guards[name] = Guard(
                None if body.breaker is None else Breaker(body.breaker),
                None if body.rate is None else RateLimiter(body.rate),
            )
        return guards[name]


def _report(
    breaker: Breaker, permit: Permit, outcome: EffectOutcome | None, now: int
) -> BreakerChange | None:
    match outcome:
        case Answered():
            return breaker.on_success(permit, now)
        case Failed():  # of any kind: an agent whose calls are rejected is of no use either
            return breaker.on_failure(permit, now)
        case _:  # also Unknown: that our side died says nothing about the provider
            breaker.on_cancelled(permit)
            return None


# Attempts of ended incarnations at a message.


def keep_attempts(process: ProcessRecord, message_id: int, attempts: Attempts) -> None:
    """Keep the attempts for the incarnation that takes the message next, and forget those of
    messages that nobody will take."""
    mailbox, known = process.mailbox, (process.attempts or {}) | {message_id: attempts}
    process.attempts = {n: of for n, of in known.items() if mailbox is not None and mailbox.has(n)}


def resume_attempts(process: ProcessRecord, message_id: int) -> Attempts:
    """Return the attempts of earlier incarnations at this message, and forget them."""
    known = process.attempts or {}
    process.attempts = {n: of for n, of in known.items() if n != message_id} or None
    return known.get(message_id, Attempts())


# Models that are not available: the agent asks its next one.


_UNAVAILABLE = frozenset(kind.__name__ for kind in (CircuitOpen, RateLimited))


def unavailable(outcome: EffectOutcome) -> str:
    """Return why a model has no answer now, where another one may; empty where another one would
    be of no help. A request that is wrong, forbidden or filtered is so for every model, and what
    our own death cut off says nothing about the provider."""
    match outcome:
        case Failed(error_class, reason) if error_class in TRANSIENT:
            return reason
        case Refused(error, reason) if error in _UNAVAILABLE:
            return reason
        case _:
            return ""


def in_full(reason: str, call: Call) -> str:
    """Return why a call failed, with what was tried before it."""
    return "; ".join((reason, *call.unavailable))


def tries_before(outcome: Failed | Refused | Unknown, send: Send, call: Call) -> str:
    """Return how often a model was asked that failed each time, where it was more than once."""
    asked = send.attempts.of(call.step, send.model) if isinstance(outcome, Failed) else 1
    return f"; it was asked {asked} times" if asked > 1 else ""


def attempts_exhausted(path: str, asked: int) -> MessageFailed:
    """Return the error for a message whose process ended too often while its model was asked."""
    return MessageFailed(
        AgentFailed.__name__,
        f"{path} ended while its model was asked, {asked} time{'s' * (asked > 1)}, and may not ask "
        "again; look why it ended, or raise max_attempts",
    )


# Repetition: an agent makes the same tool call again and again in one send.


def repeated_call(send: Send, calls: Sequence[PlannedCall], most: int) -> MessageFailed | None:
    """Count these calls, and fail the send if one was made too often. A turn whose rule compares
    results ends by that rule alone: it sees that the same test after another edit is no circle."""
    if send.turn.rule.identical_results is not None:
        return None
    for plan in calls:
        word = digest128([plan.call.name, plan.call.arguments])
        send.repeats = send.repeats | {word: send.repeats.get(word, 0) + 1}
        if send.repeats[word] > most:
            return MessageFailed(
                LimitReached.__name__,
                f"the agent called tool {plan.call.name} with the same arguments more than {most} "
                "times: it runs in circles; say in its instructions when to stop, or raise "
                "Bounds(repeats=…)",
            )
    return None


# Memory: what was said to a process before.


_SPEAKING = 64
"""How many processes have what was said to them as records."""


def remembered(process: ProcessRecord) -> tuple[Message, ...]:
    """Return what was said to a process before."""
    if process.memory is None:
        return ()
    if isinstance(process.memory, msgspec.Raw):
        return msgspec.json.decode(process.memory, type=Conversation).messages
    return as_record(Conversation, process.memory).messages


class Memories:
    """Keeps what was said. The processes that spoke last have it as records, since to write and
    read all of it in every turn would take a long conversation longer and longer; of the others it
    is text, which takes a fraction of the memory."""

    def __init__(self) -> None:
        self._speaking: dict[int, ProcessRecord] = {}

    def keep(self, process: ProcessRecord, conversation: Conversation) -> None:
        """Keep a conversation as the memory of a process."""
        process.memory = conversation
        self._speaking.pop(id(process), None)
        self._speaking[id(process)] = process
        if len(self._speaking) > _SPEAKING:
            quiet = self._speaking.pop(next(iter(self._speaking)))
            if isinstance(quiet.memory, Conversation):
                quiet.memory = msgspec.Raw(msgspec.json.encode(quiet.memory))
