"""What the parts of the machine share: the state, the moment, and what is to be done next."""

import heapq
import re
from collections import deque
from collections.abc import Iterator

from msgspec import structs

from vegakit.effects import (
    AskHuman,
    CallModel,
    Cancel,
    EffectPath,
    Request,
    SetTimer,
    Site,
    Start,
    effect,
)
from vegakit.ids import EffectKey
from vegakit.policy import Accepted, Dropped, Mailbox, MailboxFull, Taken, Waiting
from vegakit.program.actions import Action, Answer
from vegakit.program.bodies import AgentBody, Body, Code, code_digest
from vegakit.program.mail import VOID, Fell, Mail, Outcome, Prompt
from vegakit.program.paths import lives_of
from vegakit.program.sources import author_of, restore
from vegakit.program.state import (
    Authored,
    EarlyCall,
    Flight,
    Ghost,
    Phase,
    Process,
    Program,
    Timer,
    TimerKind,
)
from vegakit.records import digest128

__all__ = ["Core"]

_ALARM = Site("alarm", 0)
_CODES_KEPT = 1_000
_LETTER = re.compile(r"\d+(?=[:.])")
"""The letter that a fiber or a send asks for: what its asks begin with."""


class Core:
    """`ready` are processes that may have a letter to take, `heard` answers on their way back to
    the processes that asked."""

    def __init__(self, state: Program, code: Code) -> None:
        self.state = state
        self.code = code
        self.now = 0
        self.out: list[Action] = []
        self.ready: deque[str] = deque()
        self._codes: dict[tuple[str, str], str] = {}
        self.heard: deque[tuple[str, str, Outcome]] = deque()

    def body_of(self, process: Process) -> Body:
        name = process.spec.body
        body = self.code.get(name)
        if body is None:
            self._restore(name)
            body = self.code[name]
        return body

    def _restore(self, name: str) -> None:
        """Of a program that a model wrote, in a state that was taken up: made anew from its
        source."""
        for made in self.state.authored.values():
            if name.startswith(made.prefix):
                restore(self.code, made)
                return

    def forget_authored(self, path: str) -> None:
        made = self.state.authored.pop(path, None)
        if made is None or any(o.prefix == made.prefix for o in self.state.authored.values()):
            return
        if (author := author_of(self.code, made)) is not None:
            author.remove(made.prefix)

    def authored_around(self, path: str) -> Iterator[Authored]:
        """The programs written by models that a process is part of, the innermost first."""
        while self.state.authored and path:
            if (made := self.state.authored.get(path)) is not None:
                yield made
            path = self.state.processes[path].spawner

    def post(self, to: str, mail: Mail, dedupe: str | None = None) -> None:
        process = self.state.processes.get(to)
        if process is None or process.phase is Phase.OVER:
            gone = Fell("AgentFailed", f"noproc: there is no process {to!r} (any more)")
            self._return(mail, VOID if self.early(mail) else gone)
            return
        body = self.body_of(process)
        if process.mailbox is None:
            process.mailbox = Mailbox(body.mailbox)
        timeout_ms = body.timeout_ms if isinstance(body, AgentBody) else None
        if mail.ask and mail.deadline_ms is None and timeout_ms is not None:
            deadline_ms = self.now + timeout_ms
            mail = structs.replace(mail, deadline_ms=deadline_ms, timeout_ms=timeout_ms)
        if self.state.recorded and not mail.name:
            mail = structs.replace(mail, name=self._name(to, mail))
        posted = process.mailbox.post(mail, dedupe)
        match posted:
            case Accepted(number) | Waiting(number):
                self._await(to, mail, number)
            case Dropped(letter, accepted):
                if accepted is not None:
                    self._await(to, mail, accepted)
                self.answer(letter.message, Fell("LimitReached", f"the mailbox of {to} ran over"))
            case MailboxFull():
                self._return(mail, Fell("LimitReached", f"the mailbox of {to} is full"))
            case _:
                return
        self.ready.append(to)

    def take(self, path: str, process: Process) -> Taken[Mail] | None:
        """The next letter that somebody still waits for, or that nobody ever did."""
        while process.mailbox is not None:
            taken = process.mailbox.take()
            if taken is None:
                return None
            if self._is_awaited(path, taken):
                self._watch(path, process, taken.number)
                return taken
            process.mailbox.commit(taken.number)
        return None

    def early(self, mail: Mail) -> EarlyCall | None:
        """What is known of it, if a compiled program asks it before its turn."""
        return self.state.early.get(_word(mail)) if mail.ask else None

    def is_early(self, process: Process, letter: int) -> bool:
        """Of one that is in hand."""
        taken = None if process.mailbox is None else process.mailbox.taken(letter)
        return taken is not None and self.early(taken.message) is not None

    def speculates(self, process: Process, letter: int) -> EarlyCall | None:
        """The speculative call that a letter is part of: its own, or that of who sent it, if a
        send that was begun early calls a tool of this program."""
        early = self.state.early
        while early and process.mailbox is not None:
            taken = process.mailbox.taken(letter)
            if taken is None or not taken.message.ask:
                return None
            mail = taken.message
            if (found := early.get(_word(mail))) is not None:
                return found
            sender, place = self.state.processes.get(mail.sender), _LETTER.match(mail.ask)
            if sender is None or place is None:
                return None
            process, letter = sender, int(place[0])
        return None

    @property
    def is_settling(self) -> bool:
        """Whether something that was cancelled has not landed."""
        return bool(self.state.leaving or self.state.ghosts)

    def _is_awaited(self, path: str, taken: Taken[Mail]) -> bool:
        """By its number too: what was given up and then wanted is asked under the same word."""
        mail = taken.message
        return not mail.ask or self.state.asks.get(_word(mail)) == (path, taken.number)

    def answer(self, mail: Mail, outcome: Outcome) -> None:
        """Once; who no longer waits is told nothing."""
        if mail.ask and self.state.asks.pop(_word(mail), None) is not None:
            self._return(mail, outcome)

    def start(
        self,
        path: str,
        process: Process,
        request: Request,
        what: str,
        letter: int = 0,
        loop: tuple[int, ...] = (),
        *,
        occurrence: int = 0,
        index: int = -1,
        held: int = 0,
        ask: str = "",
        session: str = "",
        deadline_ms: int | None = None,
        priority: int = 2,
    ) -> None:
        """`what` the process does, and the letter that it does it for."""
        taken = process.mailbox.taken(letter) if process.mailbox and letter else None
        name = taken.message.name if taken else ""
        site = Site(f"{what} {name}", 0) if name else Site(what, letter)
        lives = lives_of(path, process.generation)
        place = EffectPath(self.state.tenant, self.state.id, lives, site, loop, occurrence)
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
        flight = Flight(made, path, process.generation, letter, index, held, ask, session)
        self._haunt(made.key)
        self.state.flights[made.key] = flight
        if process.flying is None:
            process.flying = {}
        process.flying[made.key] = None
        early = self.speculates(process, letter) if letter else None
        if early is not None:
            early.effects = [*early.effects, made.key]
        if isinstance(request, CallModel):
            for around in self.authored_around(path):
                around.calls += 1
            if early is not None:
                early.calls += 1
        self.out.append(Start(made, early is not None))

    def _haunt(self, key: EffectKey) -> None:
        """What was given up under this key and has not landed is told apart from what now begins:
        a host brings their outcomes in the order in which they were begun."""
        flight = self.state.flights.get(key)
        if flight is None:
            return
        self.state.leaving.pop(key, None)
        is_waste = key in self.state.doomed
        self.state.doomed.pop(key, None)
        ghosts = self.state.ghosts.get(key, [])
        self.state.ghosts[key] = [*ghosts, Ghost(flight, is_waste)]

    def _code_of(self, process: Process, mail: Mail | None) -> str:
        """A digest of what decides on the request: the body, and the program that sent the
        message. It tells an edited program from one that time or money led another way."""
        if not self.state.recorded:
            return ""  # it is compared with what a journal holds
        sender = self.state.processes.get(mail.sender) if mail and mail.sender else None
        names = process.spec.body, "" if sender is None else sender.spec.body
        found = self._codes.get(names)
        if found is None:
            if len(self._codes) >= _CODES_KEPT:
                self._codes.clear()  # models may write programs without end
            made = [code_digest(self.body_of(one)) for one in (process, sender) if one is not None]
            found = self._codes[names] = digest128(made)
        return found

    def lay_ghost(self, key: EffectKey) -> Ghost | None:
        """The first that has still to land before what is under way under this key."""
        ghosts = self.state.ghosts.pop(key, None)
        if not ghosts:
            return None
        if ghosts[1:]:
            self.state.ghosts[key] = ghosts[1:]
        return ghosts[0]

    def land(self, key: EffectKey) -> Flight | None:
        flight = self.state.flights.pop(key, None)
        if flight is not None and flight.path:
            self._rest_from(flight.path, key)
        return flight

    def _rest_from(self, path: str, key: EffectKey) -> None:
        """Of a process: nothing under this key is under way for it any more."""
        process = self.state.processes[path]
        if process.flying is not None:
            process.flying.pop(key, None)
            process.flying = process.flying or None

    def cancel(self, process: Process, letter: int | None = None, *, late: bool = False) -> None:
        """All its effects under way, or those for one letter; their outcomes still arrive. `late`:
        by a deadline, of which the asker is told."""
        for key in process.flying or ():
            number = self.state.flights[key].letter
            if letter is None or number == letter:
                taken = process.mailbox.taken(number) if process.mailbox and number else None
                self.state.leaving[key] = _word(taken.message) if taken else ""
                self.out.append(Cancel(key, late))

    def flying_for(self, path: str, letter: int) -> tuple[EffectKey, ...]:
        """The effects under way for one letter."""
        process = self.state.processes.get(path)
        flying = (process.flying if process is not None else None) or ()
        return tuple(key for key in flying if self.state.flights[key].letter == letter)

    def wake_at(self, due_ms: int, kind: TimerKind, of: str, letter: int = 0) -> None:
        self.state.turns += 1
        heapq.heappush(self.state.timers, Timer(due_ms, self.state.turns, kind, of, letter))

    def post_at(self, due_ms: int, to: str, mail: Mail) -> None:
        self.wake_at(due_ms, TimerKind.POST, to)
        self.state.put_off[self.state.turns] = mail

    def take_timer(self) -> Timer | None:
        timers = self.state.timers
        return heapq.heappop(timers) if timers and timers[0].due_ms <= self.now else None

    def set_alarm(self) -> None:
        """One timer of the host for all of ours: the earliest that still means something."""
        state, timers = self.state, self.state.timers
        while timers and self._is_stale(timers[0]):
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
            state.flights[made.key] = Flight(made, "", 0)
            self.out.append(Start(made))

    def _is_stale(self, timer: Timer) -> bool:
        if timer.kind == TimerKind.FAMILY:
            family = self.state.families.get(timer.of)
            return family is None or family.supervisor.due is None
        process = self.state.processes.get(timer.of)
        if timer.kind == TimerKind.POST:
            return False
        if process is None or process.mailbox is None:
            return True
        later = self.answered_later(timer.of, process, timer.letter)
        return later is None and not process.mailbox.has(timer.letter)

    def answered_later(self, path: str, process: Process, letter: int) -> Mail | None:
        """The ask that came with a letter whose answer was put off."""
        for sender, ask in (process.later or {}).values():
            mail = Mail(None, ask, sender)
            if self.state.asks.get(_word(mail)) == (path, letter):
                return mail
        return None

    def _name(self, to: str, mail: Mail) -> str:
        value = mail.value.question if isinstance(mail.value, Prompt) else mail.value
        word = digest128([to, mail.sender, value])
        number = self.state.equals[word] = self.state.equals.get(word, 0) + 1
        return f"{word}.{number}"

    def _watch(self, path: str, process: Process, letter: int) -> None:
        process.since_ms = self.now
        patience_ms = process.spec.stuck_after_ms
        if patience_ms is not None:
            self.wake_at(self.now + patience_ms, TimerKind.STUCK, path, letter)

    def _await(self, to: str, mail: Mail, number: int) -> None:
        if mail.ask:
            self.state.asks[_word(mail)] = (to, number)
        if mail.deadline_ms is not None:
            self.wake_at(mail.deadline_ms, TimerKind.DEADLINE, to, number)

    def _return(self, mail: Mail, outcome: Outcome) -> None:
        if not mail.ask:
            return
        if mail.sender:
            self.heard.append((mail.sender, mail.ask, outcome))
        else:
            self.out.append(Answer(mail.ask, outcome))


def _word(mail: Mail) -> str:
    return f"{mail.sender}|{mail.ask}" if mail.sender else mail.ask
