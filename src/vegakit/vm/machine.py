"""The machine: it runs strands in turn, hands out wants and takes answers.

    start ─▶ run(fuel) ─▶ Step(running | waiting | finished | crashed | exited, wants)
                ▲                      │
                └── answer, fail, chunk, end_stream ◀── the host

Strands take turns in the order they became ready; a turn ends after so much fuel. Nothing depends
on how the fuel is given: `run(1)` many times is `run(many)`. An instruction that has to wait is run
again when it can go on, and costs its fuel once.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from vegakit.lang import Module, Type
from vegakit.records import digest128
from vegakit.vm import strands
from vegakit.vm.answering import answered, chunked, failed, stream_ended
from vegakit.vm.asking import ASKING
from vegakit.vm.building import BUILDING
from vegakit.vm.calling import CALLING, end_frame
from vegakit.vm.computing import STOP, Cold, compute
from vegakit.vm.decoding import COLD, Call, Program, load
from vegakit.vm.faults import Fault, bad, limit
from vegakit.vm.state import (
    MAIN,
    TURN,
    Asked,
    Crash,
    Frame,
    Status,
    Step,
    Strand,
    VmState,
    opened,
    packed,
)
from vegakit.vm.sweeping import state_weight, sweep
from vegakit.vm.terrain import Terrain, terrain_of
from vegakit.vm.unwinding import cause_in, unwind
from vegakit.vm.values import Handle, Value, stored
from vegakit.vm.wants import CallHost, Cancel, Early, End, SendTo, Taken, Want

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Vm"]

_WEIGH_EVERY = 1_000_000
_OPS: Mapping[int, Cold] = {
    COLD + op: cold for op, cold in (BUILDING | CALLING | ASKING | strands.STRANDS).items()
}


class Vm:
    """`pending` are the tickets without an answer, by the strand that asked."""

    def __init__(self, program: Module | Program, state: VmState) -> None:
        self.program = program if isinstance(program, Program) else load(program)
        self.functions, self.types = self.program.functions, self.program.types
        self.state = opened(state)
        self.extra = 0
        self.live_registers = sum(
            len(frame.registers) for s in self.state.strands.values() for frame in s.frames
        )
        self.pending: dict[str, dict[str, None]] = {}
        for ticket, asked in self.state.asked.items():
            if not asked.done:
                self.pending.setdefault(asked.strand, {})[ticket] = None
        self._waiting: dict[str, list[str]] = {}
        for name, strand in self.state.strands.items():
            if strand.waits and name not in self.state.ready:
                self._waiting.setdefault(strand.waits, []).append(name)

    def snapshot(self) -> VmState:
        """As JSON can hold it. A state that is too large to be written down ends the program."""
        self.weigh()
        return packed(self.state)

    def weigh(self) -> bool:
        """False when the state is too large to be written down, which ends the program."""
        fits = state_weight(self.state) <= self.state.limits.weight
        if not fits:
            self._crash_all(Fault("LimitReached", _TOO_LARGE))
        return fits

    def written(self) -> VmState:
        """What is kept of it in the state of a program."""
        return packed(self.state)

    # Running

    def run(self, fuel: int) -> Step:
        state = self.state
        while fuel > 0 and state.status is Status.RUNNING and state.ready:
            fuel -= self._take_turn(fuel)
            state.stirred = True
        if state.window and state.stirred and not state.ready and state.status is Status.RUNNING:
            state.stirred = False
            _scouting().look_ahead(self)
        return self._step()

    def _take_turn(self, fuel: int) -> int:
        state = self.state
        strand = state.strands[state.ready[0]]
        room = min(fuel, state.turn, state.limits.total_fuel - state.fuel_used)
        if room <= 0:
            self._crash_all(Fault("FuelExhausted", _NO_FUEL, self.stack(strand)))
            return 0
        room = min(room, state.weighed + _WEIGH_EVERY - state.fuel_used)
        free = 1 if strand.waits else 0
        strand.waits = ""
        spent = room - compute(self, strand, room + free, _OPS)
        state.fuel_used += spent
        self._end_turn(strand, spent)
        return spent

    def _end_turn(self, strand: Strand, spent: int) -> None:
        state = self.state
        if not state.ready or state.ready[0] != strand.name:
            state.turn = TURN
        else:
            state.turn -= spent
            if state.turn <= 0:
                state.turn = TURN
                state.ready.append(state.ready.pop(0))
        if state.fuel_used >= state.weighed + _WEIGH_EVERY:
            state.weighed = state.fuel_used
            if state.status is Status.RUNNING and state_weight(state) > state.limits.weight:
                self._crash_all(Fault("LimitReached", _TOO_LARGE, self.stack(strand)))

    def _step(self) -> Step:
        state = self.state
        wants = tuple(state.outbox)
        state.outbox.clear()
        status = state.status
        if status is Status.RUNNING and not state.ready:
            status = Status.WAITING
        return Step(status, wants, stored(state.value), state.error)

    # Answers of the host; False when nobody waits for them any more

    def answer(self, ticket: str, value: object, cause: tuple[str, ...] = ()) -> bool:
        """`cause` is what it comes from, should it not fit what was asked for."""
        return answered(self, ticket, value, cause)

    def fail(self, ticket: str, error: str, reason: str, cause: tuple[str, ...] = ()) -> bool:
        return failed(self, ticket, error, reason, cause)

    def chunk(self, ticket: str, text: str) -> bool:
        return chunked(self, ticket, text)

    def end_stream(self, ticket: str) -> bool:
        return stream_ended(self, ticket)

    def decline(self, ticket: str) -> None:
        """What was wanted early has to wait for its turn."""
        asked = self.state.asked.get(ticket)
        if asked is not None and asked.early:
            del self.state.asked[ticket]
            self.pending.get(asked.strand, {}).pop(ticket, None)

    def void(self, ticket: str) -> None:
        """What was begun early came to something that only its turn may bring: the program asks
        again when it comes to it."""
        if self.begun_early(ticket):
            _scouting().give_up(self, [ticket])
            self.state.outbox.pop()

    # For the instructions

    def function(self, number: int) -> Call:
        return self.functions[number]

    def type(self, number: int) -> Type:
        return self.types[number]

    def want(self, want: Want) -> None:
        self.state.outbox.append(want)

    @cached_property
    def terrain(self) -> Terrain:
        return terrain_of(self.program)

    def heard(self, agent: str, to: Value) -> int:
        """How many messages it was sent, if it remembers them."""
        return self.state.heard.get(to.path, 0) if self._remembers(agent, to) else 0

    def count_heard(self, agent: str, to: Value) -> None:
        if self._remembers(agent, to):
            self.state.heard[to.path] = self.state.heard.get(to.path, 0) + 1

    def _remembers(self, agent: str, to: Value) -> bool:
        spec = self.terrain.rows.spec(agent) if type(to) is Handle else None
        return spec is not None and spec.memory

    def ticket(self, frame: Frame, site: int, version: str = "") -> str:
        """With the version whatever the window is: a run may go on with another one."""
        return self._place(frame, site) + version

    def _place(self, frame: Frame, site: int) -> str:
        ordinal, loops = self.functions[frame.function].sites[site]
        if not loops:
            return f"{frame.place}:{ordinal}"
        rounds = [frame.registers[each] for each in loops]
        if not all(type(count) is int for count in rounds):
            raise bad("a loop around an effect does not count its rounds")
        return f"{frame.place}:{ordinal}[{'.'.join(map(str, rounds))}]"

    def scope(self, frame: Frame) -> str:
        """The innermost budget scope that is still open."""
        for scope in reversed(frame.scopes):
            if scope in self.state.scopes:
                return scope
        return frame.outer

    def has_asked(self, ticket: str, kind: str, strand: Strand) -> bool:
        asked = self.state.asked.get(ticket)
        if asked is None:
            return False
        if asked.kind == kind and asked.strand == strand.name:
            return True
        raise bad(f"{ticket:.200} is asked twice")

    def ask(self, ticket: str, asked: Asked) -> None:
        state = self.state
        if ticket in state.asked:
            raise bad(f"{ticket:.200} is asked twice")
        if len(state.asked) >= state.sweep_at:
            sweep(state)
        state.asked[ticket] = asked
        self.pending.setdefault(asked.strand, {})[ticket] = None

    def begun_early(self, ticket: str) -> bool:
        asked = self.state.asked.get(ticket)
        return asked is not None and asked.early

    def takes_over(self, strand: Strand, ticket: str, want: SendTo | CallHost) -> bool:
        """What was begun early is this call, if the same is wanted; else the scout was wrong, and
        all that it began for this strand is given up."""
        asked = self.state.asked[ticket]
        if asked.digest == digest128(want) and asked.strand == strand.name:
            asked.early, asked.digest = False, ""
            self.want(want if self.unwant(ticket) else Taken(ticket, want))
            return True
        _scouting().give_up_all(self, strand.name)
        return False

    def unwant(self, ticket: str) -> bool:
        """What is wanted early and was not handed out yet is not wanted early any more."""
        for at, want in enumerate(self.state.outbox):
            if isinstance(want, Early) and want.of.ticket == ticket:
                del self.state.outbox[at]
                return True
        return False

    def wait(self, strand: Strand, frame: Frame, key: str) -> int:
        """Run this instruction again when `key` is woken."""
        frame.pc -= 1
        self.state.ready.remove(strand.name)
        self.park(strand, key)
        return STOP

    def park(self, strand: Strand, key: str) -> None:
        strand.waits = key
        self._waiting.setdefault(key, []).append(strand.name)

    def wake(self, key: str) -> None:
        """In the order in which they were made, as a machine that is restored would."""
        woken = self._waiting.pop(key, ())
        if len(woken) > 1:
            several = frozenset(woken)
            woken = [name for name in self.state.strands if name in several]
        self.state.ready += woken

    def forget(self, strand: Strand) -> None:
        """Wherever it was."""
        if self.state.window:
            _scouting().give_up_all(self, strand.name)
        del self.state.strands[strand.name]
        if strand.name in self.state.ready:
            self.state.ready.remove(strand.name)
        waiting = self._waiting.get(strand.waits, [])
        if strand.name in waiting:
            waiting.remove(strand.name)

    def inherit(self, strand: str, heir: str) -> None:
        """What it still waits for is from now on asked by another strand."""
        tickets = self.pending.pop(strand, {})
        for ticket in tickets:
            self.state.asked[ticket].strand = heir
        if tickets:
            self.pending.setdefault(heir, {}).update(tickets)

    def take_registers(self, count: int) -> None:
        if self.live_registers + count > self.state.limits.registers:
            raise limit(f"at most {self.state.limits.registers:,} variables live at once")
        self.live_registers += count
        self.extra += count >> 6

    def end_groups(self, frame: Frame) -> None:
        strands.end_groups(self, frame)

    def end_strands(self, names: list[str]) -> None:
        strands.end_strands(self, names)

    def stack(self, strand: Strand) -> tuple[tuple[str, str, int], ...]:
        """Where it stands, innermost call first, with the calls below the strand it split from."""
        rows: list[tuple[str, str, int]] = []
        frames = strand.frames
        while True:
            for frame in reversed(frames):
                function = self.functions[frame.function]
                rows.append((function.name, function.file, function.lines[max(frame.pc - 1, 0)]))
            group = self.state.groups.get(strand.group)
            if group is None:
                return tuple(rows)
            strand = self.state.strands[group.owner]
            frames = strand.frames[: group.frame]

    # The end

    def unwind(self, strand: Strand, fault: Fault) -> bool:
        """True when a handler goes on with it."""
        handled = unwind(self, strand, fault)
        if handled and self.state.window:
            _scouting().squash(self, strand)
        return handled

    def finish(self, value: Value) -> None:
        self._end_all(value)
        self.state.status, self.state.value = Status.FINISHED, value

    def exit(self, strand: Strand, reason: str) -> None:
        """The error is for who waits for an answer of it."""
        crash = Crash("AgentFailed", reason, self.stack(strand), cause_in(strand, ()))
        self._end_all(None)
        self.want(End(reason))
        self.state.status, self.state.error = Status.EXITED, crash

    def crash(self, crash: Crash) -> None:
        """Futures that failed and that nobody awaited yet are a cause, too: the program would meet
        them one after the other, each time it goes on."""
        cause = dict.fromkeys(crash.cause)
        for asked in self.state.asked.values():
            if asked.error is not None and not asked.taken:
                cause |= dict.fromkeys(asked.error.cause)
        crash = Crash(crash.error, crash.reason, crash.stack, (*cause,))
        self._end_all(None)
        self.state.status, self.state.error = Status.CRASHED, crash

    def _crash_all(self, fault: Fault) -> None:
        self.crash(Crash(fault.name, fault.reason, fault.stack, fault.cause))

    def _end_all(self, value: Value) -> None:
        """Close, drop and cancel all there is; what the value holds lives on."""
        state = self.state
        if state.window:
            for name in state.strands:
                _scouting().give_up_all(self, name)
        main = state.strands[MAIN]
        strands.abandon(self, main)
        while main.frames:
            end_frame(self, main.frames.pop(), value)
        strands.cancel_asked(self, MAIN)
        for ticket, asked in state.asked.items():
            if not asked.done:
                self.want(Cancel(ticket))
        for part in (state.strands, state.asked, state.groups, state.scopes, state.spawned):
            part.clear()
        state.ready.clear()
        self.pending.clear()
        self._waiting.clear()


def _scouting() -> "ModuleType":
    """Loaded when a program first waits: it stands on this file."""
    from vegakit.vm import scouting

    return scouting


_NO_FUEL = "the program has used all its fuel; raise the limit or look for an endless loop"
_TOO_LARGE = "the variables of the program hold more than a program may"
