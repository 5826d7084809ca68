"""The parts of the machine share a core: state, queues, effects in flight, timers, workers
(pure)."""

import heapq
import re
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b

from msgspec import structs

from vegakit.effects import (
    AskHuman,
    CallModel,
    Cancel,
    EffectPath,
    EffectRequest,
    SetTimer,
    Site,
    Start,
    effect,
)
from vegakit.events import EffectOutcome
from vegakit.ids import EffectKey
from vegakit.policy import Accepted, Dropped, Mailbox, MailboxFull, Taken, Waiting
from vegakit.program.bodies import (
    AgentBody,
    Body,
    Code,
    StandInBody,
    author_of,
    code_digest,
    restore,
)
from vegakit.program.messages import (
    VOID,
    MessageFailed,
    Outcome,
    ProcessMessage,
    Prompt,
    ResultMessage,
    system_message,
)
from vegakit.program.protocol import Action, Answer
from vegakit.program.state import (
    AskedAt,
    AuthoredProgram,
    InFlightEffect,
    ProcessPhase,
    ProcessRecord,
    Program,
    SpeculativeCallRecord,
    SupersededEffect,
    Timer,
    TimerKind,
    incarnations_of,
)
from vegakit.records import digest128

# Jitter that is equal in every replay: it is computed from a word instead of drawn at random.


def draw(word: str) -> float:
    """Return a number from 0 to 1."""
    return int.from_bytes(blake2b(word.encode(), digest_size=4).digest()) / 2**32


# The shared core: the state, the current time, and the queues of what is to be done next.


_ALARM = Site("alarm", 0)
_CODES_KEPT = 1_000
_MESSAGE_ID = re.compile(r"\d+(?=[:.])")
"""The id of the message that a fiber or a send works on: its asks start with it."""


class Core:
    """State and queues of the machine. `ready` are processes that may have a message to take;
    `pending_results` are results on their way back to the processes that asked."""

    def __init__(self, state: Program, code: Code) -> None:
        self.state = state
        self.code = code
        self.now = 0
        self.out: list[Action] = []
        self.ready: deque[str] = deque()
        self._codes: dict[tuple[str, str], str] = {}
        self.pending_results: deque[tuple[str, str, Outcome]] = deque()

    def body_of(self, process: ProcessRecord) -> Body:
        """Return the body of a process, compiling it first if a model wrote it in an earlier
        run."""
        name = process.spec.body
        body = self.code.get(name)
        if body is None:
            self._restore(name)
            body = self.code[name]
        return body

    def _restore(self, name: str) -> None:
        """Make the bodies of a program that a model wrote again from its source, after its state
        was loaded."""
        for made in self.state.authored.values():
            if name.startswith(made.prefix):
                restore(self.code, made)
                return

    def forget_authored(self, path: str) -> None:
        """Forget the program that a model wrote for this process; remove its bodies when no process
        has them."""
        made = self.state.authored.pop(path, None)
        if made is None or any(o.prefix == made.prefix for o in self.state.authored.values()):
            return
        if (author := author_of(self.code, made)) is not None:
            author.remove(made.prefix)

    def authored_around(self, path: str) -> Iterator[AuthoredProgram]:
        """Yield the programs written by models that a process is part of, the innermost first."""
        while self.state.authored and path:
            if (made := self.state.authored.get(path)) is not None:
                yield made
            path = self.state.processes[path].spawner

    def post(self, to: str, message: ProcessMessage, dedupe: str | None = None) -> None:
        """Put a message into a mailbox, or tell its sender that nobody is there."""
        process = self.state.processes.get(to)
        if process is None or process.phase is ProcessPhase.OVER:
            gone = MessageFailed("AgentFailed", f"noproc: there is no process {to!r} (any more)")
            self._return(message, VOID if self.speculative(message) else gone)
            return
        body = self.body_of(process)
        if process.mailbox is None:
            process.mailbox = Mailbox(body.mailbox)
        timeout_ms = body.timeout_ms if isinstance(body, AgentBody | StandInBody) else None
        if message.ask and message.deadline_ms is None and timeout_ms is not None:
            deadline_ms = self.now + timeout_ms
            message = structs.replace(message, deadline_ms=deadline_ms, timeout_ms=timeout_ms)
        if self.state.recorded and not message.name:
            message = structs.replace(message, name=self._name(to, message))
        posted = process.mailbox.post(message, dedupe)
        match posted:
            case Accepted(number) | Waiting(number):
                self._await(to, message, number)
            case Dropped(dropped, accepted):
                if accepted is not None:
                    self._await(to, message, accepted)
                self.answer(
                    dropped.message, MessageFailed("LimitReached", f"the mailbox of {to} ran over")
                )
            case MailboxFull():
                self._return(message, MessageFailed("LimitReached", f"the mailbox of {to} is full"))
            case _:
                return
        self.ready.append(to)

    def take(self, path: str, process: ProcessRecord) -> Taken[ProcessMessage] | None:
        """Take the next message, and pass over messages whose sender no longer waits for a
        result."""
        while process.mailbox is not None:
            taken = process.mailbox.take()
            if taken is None:
                return None
            if self._is_awaited(path, taken):
                self._watch(path, process, taken.number)
                return taken
            process.mailbox.commit(taken.number)
        return None

    def speculative(self, message: ProcessMessage) -> SpeculativeCallRecord | None:
        """Return the record of a message that is a speculative call of a compiled program, else
        None."""
        return self.state.speculative.get(_ask_key(message)) if message.ask else None

    def is_speculative(self, process: ProcessRecord, message_id: int) -> bool:
        """Return whether a message that the process has taken is a speculative call."""
        taken = None if process.mailbox is None else process.mailbox.taken(message_id)
        return taken is not None and self.speculative(taken.message) is not None

    def speculates(self, process: ProcessRecord, message_id: int) -> SpeculativeCallRecord | None:
        """Return the speculative call that a message belongs to: its own, or, if the message is a
        tool call within a speculative send, that of the send."""
        speculative = self.state.speculative
        while speculative and process.mailbox is not None:
            taken = process.mailbox.taken(message_id)
            if taken is None or not taken.message.ask:
                return None
            message = taken.message
            if (found := speculative.get(_ask_key(message))) is not None:
                return found
            sender, place = self.state.processes.get(message.sender), _MESSAGE_ID.match(message.ask)
            if sender is None or place is None:
                return None
            process, message_id = sender, int(place[0])
        return None

    def place_of(self, message: ProcessMessage) -> tuple[str, ProcessRecord, int, str] | None:
        """Return where a message comes from: the process, the message that this works on, and the
        word for this one in it. None if it does not come from a fiber or from a call of a tool."""
        sender, number = self.state.processes.get(message.sender), _MESSAGE_ID.match(message.ask)
        if sender is None or number is None:
            return None
        return message.sender, sender, int(number[0]), message.ask[number.end() + 1 :]

    @property
    def is_settling(self) -> bool:
        """Return whether the outcome of a cancelled effect has not arrived yet."""
        return bool(self.state.cancelling or self.state.superseded)

    def _is_awaited(self, path: str, taken: Taken[ProcessMessage]) -> bool:
        """Compare the number too: a call that was cancelled and then made again has the same
        ask."""
        message = taken.message
        place = AskedAt(path, taken.number)
        return not message.ask or self.state.asks.get(_ask_key(message)) == place

    def answer(self, message: ProcessMessage, outcome: Outcome) -> None:
        """Return a result to the sender, once. A sender that no longer waits gets none."""
        if message.ask and self.state.asks.pop(_ask_key(message), None) is not None:
            self._return(message, outcome)

    def start(
        self,
        path: str,
        process: ProcessRecord,
        request: EffectRequest,
        what: str,
        message_id: int = 0,
        loop: tuple[int, ...] = (),
        *,
        occurrence: int = 0,
        index: int = -1,
        held: int = 0,
        ask: str = "",
        session: str = "",
        span: str = "",
        deadline_ms: int | None = None,
        priority: int = 2,
    ) -> None:
        """Start an effect: `what` the process does, and the message that it does it for."""
        taken = process.mailbox.taken(message_id) if process.mailbox and message_id else None
        name = taken.message.name if taken else ""
        site = Site(f"{what} {name}", 0) if name else Site(what, message_id)
        incarnations = incarnations_of(path, process.generation)
        place = EffectPath(self.state.tenant, self.state.id, incarnations, site, loop, occurrence)
        code = self._code_of(process, taken.message if taken else None)
        made = effect(
            place,
            request,
            deadline_ms=deadline_ms,
            priority=priority,
            code=code,
            is_unique=process.once
            and not self.state.recorded
            and not isinstance(request, AskHuman),
        )
        if (again := self.state.given_up.get(made.key)) is not None:
            made = structs.replace(made, again=again)
        flight = InFlightEffect(
            made, path, process.generation, message_id, index, held, ask, session, span
        )
        self._supersede(made.key)
        self.state.effects_in_flight[made.key] = flight
        if process.in_flight is None:
            process.in_flight = {}
        process.in_flight[made.key] = None
        speculative = self.speculates(process, message_id) if message_id else None
        if speculative is not None:
            speculative.effects = [*speculative.effects, made.key]
        if isinstance(request, CallModel):
            for around in self.authored_around(path):
                around.calls += 1
            if speculative is not None:
                speculative.calls += 1
        self.out.append(Start(made, speculative is not None))

    def _supersede(self, key: EffectKey) -> None:
        """Keep apart a cancelled effect that has not landed and the new one with the same key. A
        host returns the outcomes of equal keys in the order in which they were started."""
        flight = self.state.effects_in_flight.get(key)
        if flight is None:
            return
        self.state.cancelling.pop(key, None)
        is_waste = key in self.state.wasted_effects
        self.state.wasted_effects.pop(key, None)
        superseded = self.state.superseded.get(key, [])
        self.state.superseded[key] = [*superseded, SupersededEffect(flight, is_waste)]

    def _code_of(self, process: ProcessRecord, message: ProcessMessage | None) -> str:
        """Return a digest of the code that makes the request: the body, and the program that sent
        the message. It distinguishes an edited program from one that took another branch because of
        time or money."""
        if not self.state.recorded:
            return ""  # it is compared with what a journal holds
        sender = self.state.processes.get(message.sender) if message and message.sender else None
        names = process.spec.body, "" if sender is None else sender.spec.body
        found = self._codes.get(names)
        if found is None:
            if len(self._codes) >= _CODES_KEPT:
                self._codes.clear()  # models may write programs without end
            made = [code_digest(self.body_of(one)) for one in (process, sender) if one is not None]
            found = self._codes[names] = digest128(made)
        return found

    def take_superseded(self, key: EffectKey) -> SupersededEffect | None:
        """Return the oldest superseded effect of this key, whose outcome arrives before that of the
        current one."""
        superseded = self.state.superseded.pop(key, None)
        if not superseded:
            return None
        if superseded[1:]:
            self.state.superseded[key] = superseded[1:]
        return superseded[0]

    def land(self, key: EffectKey) -> InFlightEffect | None:
        """Take out an effect whose outcome has come."""
        flight = self.state.effects_in_flight.pop(key, None)
        if flight is not None and flight.path:
            self._rest_from(flight.path, key)
        return flight

    def _rest_from(self, path: str, key: EffectKey) -> None:
        """Remove the key from the process's effects in flight."""
        process = self.state.processes[path]
        if process.in_flight is not None:
            process.in_flight.pop(key, None)
            process.in_flight = process.in_flight or None

    def cancel(
        self, process: ProcessRecord, message_id: int | None = None, *, late: bool = False
    ) -> None:
        """Cancel all effects of the process, or those for one message. Their outcomes still arrive.
        With `late` a deadline is the reason, and the sender is told so."""
        for key in process.in_flight or ():
            number = self.state.effects_in_flight[key].message_id
            if message_id is None or number == message_id:
                taken = process.mailbox.taken(number) if process.mailbox and number else None
                self.state.cancelling[key] = _ask_key(taken.message) if taken else ""
                self.out.append(Cancel(key, late))

    def in_flight_for(self, path: str, message_id: int) -> tuple[EffectKey, ...]:
        """Return the keys of the effects in flight for one message."""
        process = self.state.processes.get(path)
        in_flight = (process.in_flight if process is not None else None) or ()
        return tuple(
            key for key in in_flight if self.state.effects_in_flight[key].message_id == message_id
        )

    def wake_at(self, due_ms: int, kind: TimerKind, of: str, message_id: int = 0) -> None:
        """Set a timer."""
        self.state.turns += 1
        heapq.heappush(self.state.timers, Timer(due_ms, self.state.turns, kind, of, message_id))

    def park(self, path: str, message_id: int) -> None:
        """Let a send wait for its turn in the program."""
        self.state.parked[f"{path}|{message_id}"] = path, message_id, self.now

    def is_put_off(self, path: str, message_id: int) -> bool:
        """Return whether the deadline of a message does not hold now: it waits for its turn, or it
        did and was given more time."""
        process = self.state.processes.get(path)
        taken = process.mailbox.taken(message_id) if process and process.mailbox else None
        due_ms = None if taken is None else taken.message.deadline_ms
        is_later = due_ms is not None and due_ms > self.now
        return is_later or f"{path}|{message_id}" in self.state.parked

    def post_at(self, due_ms: int, to: str, message: ProcessMessage) -> None:
        """Post a message later."""
        self.wake_at(due_ms, TimerKind.POST, to)
        self.state.put_off[self.state.turns] = message

    def take_timer(self) -> Timer | None:
        """Return the next timer that is due, if there is one."""
        timers = self.state.timers
        return heapq.heappop(timers) if timers and timers[0].due_ms <= self.now else None

    def set_alarm(self) -> None:
        """Set the host's one timer to the earliest of our timers that is still needed."""
        state, timers = self.state, self.state.timers
        while timers and self.is_stale(timers[0]):
            heapq.heappop(timers)
        due_ms = timers[0].due_ms if timers else None
        if due_ms == state.alarm_ms:
            return
        if state.alarm is not None:
            self.out.append(Cancel(state.alarm))
        state.alarm_ms, state.alarm = due_ms, None
        if due_ms is not None:
            state.alarms += 1
            place = EffectPath(state.tenant, state.id, (), _ALARM, (), state.alarms)
            made = effect(place, SetTimer(due_ms))
            state.alarm = made.key
            state.effects_in_flight[made.key] = InFlightEffect(made, "", 0)
            self.out.append(Start(made))

    def is_stale(self, timer: Timer) -> bool:
        """Return whether nothing needs a timer any more."""
        if timer.kind == TimerKind.SUPERVISOR:
            supervision = self.state.supervisors.get(timer.of)
            return supervision is None or supervision.supervisor.due is None
        process = self.state.processes.get(timer.of)
        if timer.kind == TimerKind.POST:
            return False
        if process is None or process.mailbox is None:
            return True
        later = self.answered_later(timer.of, process, timer.message_id)
        return later is None and not process.mailbox.has(timer.message_id)

    def answered_later(
        self, path: str, process: ProcessRecord, message_id: int
    ) -> ProcessMessage | None:
        """Return the message whose reply was deferred, to answer it now."""
        for sender, ask in (process.later or {}).values():
            message = ProcessMessage(None, ask, sender)
            if self.state.asks.get(_ask_key(message)) == AskedAt(path, message_id):
                return message
        return None

    def _name(self, to: str, message: ProcessMessage) -> str:
        value = message.value.question if isinstance(message.value, Prompt) else message.value
        word = digest128([to, message.sender, value])
        process = self.state.processes[to]
        if process.equals is None:
            process.equals = {}
        known = process.equals.get(word) or self.state.equals.get(word, 0)
        number = process.equals[word] = known + 1
        return f"{word}.{number}"

    def _watch(self, path: str, process: ProcessRecord, message_id: int) -> None:
        process.since_ms = self.now
        patience_ms = process.spec.stuck_after_ms
        if patience_ms is not None:
            self.wake_at(self.now + patience_ms, TimerKind.STUCK, path, message_id)

    def _await(self, to: str, message: ProcessMessage, number: int) -> None:
        if message.ask:
            self.state.asks[_ask_key(message)] = AskedAt(to, number)
        if message.deadline_ms is not None:
            self.wake_at(message.deadline_ms, TimerKind.DEADLINE, to, number)

    def _return(self, message: ProcessMessage, outcome: Outcome) -> None:
        if not message.ask:
            return
        if message.sender:
            self.pending_results.append((message.sender, message.ask, outcome))
        else:
            self.out.append(Answer(message.ask, outcome))


def _ask_key(message: ProcessMessage) -> str:
    return f"{message.sender}|{message.ask}" if message.sender else message.ask


# The time as programs see it.


NOW = "time::now"
"""The machine answers it itself, unless a journal records outcomes. Then it is a tool call, so that
a resumed run sees the recorded time and makes the same requests."""


def time_text(now_ms: int) -> str:
    """Return a time in UTC as programs see it: `2026-01-31T12:00:00Z`."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# The interface of workers: what each kind of body does for its processes. The default is nothing.


class Worker:
    """An exception from `begin`, `work`, `on_outcome`, `on_result` or `on_timer` crashes the
    process."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def begin(self, path: str, process: ProcessRecord) -> None:
        """An incarnation begins."""

    def work(self, path: str, process: ProcessRecord) -> None:
        """Take messages, as many as it handles at once."""

    def on_outcome(
        self, path: str, process: ProcessRecord, flight: InFlightEffect, outcome: EffectOutcome
    ) -> None:
        """Handle the outcome of an effect of this incarnation. Its money is settled already."""

    def settle(
        self, path: str, process: ProcessRecord, flight: InFlightEffect, outcome: EffectOutcome
    ) -> None:
        """Settle the money of an effect, also for an ended incarnation or a cancelled message."""

    def on_result(self, path: str, process: ProcessRecord, ask: str, outcome: Outcome) -> None:
        """Handle the result of an ask of this process."""
        self._core.post(path, system_message(ResultMessage(ask, outcome)))

    def on_timer(self, path: str, process: ProcessRecord, message_id: int) -> None:
        """Wake what waits in the process."""

    def is_next(self, path: str, process: ProcessRecord, message_id: int, word: str) -> bool:
        """Return whether all that the process began before `word`, for the same message, is
        over."""
        return True

    def drop(self, path: str, process: ProcessRecord, message_id: int) -> None:
        """Stop the work on one message."""

    def abandon(self, path: str, process: ProcessRecord) -> None:
        """Stop the work on every message, because the incarnation ends."""
