"""Looking ahead: calls that the program will make are begun while it waits for an earlier one.

The program itself runs strictly in order. When it waits, a scout walks on from there over a copy of
the waiting strand, with `Unknown` in place of missing answers, and begins every call that may begin
early. When the program comes to such a call, it takes it over if what it wants is equal, and calls
anew if not. So the scout can begin too little, which costs time, or in vain, which costs waste; it
cannot change what the program does.

| the scout meets                   | and                                                         |
|-----------------------------------|-------------------------------------------------------------|
| a send or a reading host call     | begins it, if it only reads, its operands are known, nothing|
|                                   | passed over conflicts with it, and the window has room      |
| a writer, a question, a print     | passes over it, and remembers what it touches               |
| a jump that nobody can decide yet | steps over the region to where the ways meet                |
| an answer that is an error        | goes on in its handler, as the program will                 |
| a pause, a look at the budget, a  | ends here                                                   |
| group, a monitor, the last return |                                                             |
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from msgspec.structs import replace

from vegakit.lang import ANY_AGENT, Effects, Op, conflict, joined
from vegakit.records import digest128
from vegakit.vm.asking import agent_asked, call_wanted, send_wanted
from vegakit.vm.computing import Operands, compute
from vegakit.vm.faults import Fault
from vegakit.vm.machine import Vm
from vegakit.vm.scouted import OPS, UNOPENED, came
from vegakit.vm.state import Asked, Crash, Frame, Strand, VmState
from vegakit.vm.unknown import NO_BOUND, LookedEnoughError, never_fails, poisoned, size_of
from vegakit.vm.unwinding import unwind
from vegakit.vm.values import AgentRef, Handle, Unknown, Value, weight_of
from vegakit.vm.versions import UNCOUNTED, changes, count_change, version_of
from vegakit.vm.wants import CallHost, Cancel, Early, Older, SendTo, Want

__all__ = ["Scout", "give_up", "give_up_all", "look_ahead", "squash"]

_FUEL = 20_000
"""What one look ahead may burn; it is not counted as the program's."""

_JUMPS = frozenset({Op.JUMP_IF, Op.JUMP_IF_NOT, Op.JUMP_IF_NULL, Op.NEXT})


def look_ahead(vm: Vm) -> None:
    """From every strand that waits for an answer; those of one `parallel` are independent."""
    if sum(asked.early for asked in vm.state.asked.values()) >= vm.state.window:
        return
    for strand in [*vm.state.strands.values()]:
        if strand.waits in vm.state.asked and not strand.watch:
            _walked(vm, strand, begins=True)


def _walked(vm: Vm, strand: Strand, *, begins: bool) -> set[str]:
    """The speculative calls that were met. Whatever goes wrong ends the look ahead and nothing
    else: the program was not there yet, and when it comes there it meets its own errors. What had
    begun by then stands, and is taken over or given up like any other."""
    seen: set[str] = set()
    with never_fails("looking ahead"):
        scout = Scout(vm, strand, begins=begins)
        seen = scout.seen
        scout.walk()
    return seen


def squash(vm: Vm, strand: Strand) -> None:
    """It has gone another way than was looked ahead: what it will not meet now is given up."""
    early = _early(vm, strand.name)
    if early:
        seen = _walked(vm, strand, begins=False)
        give_up(vm, [*_unmet(vm, early, seen)])


def _unmet(vm: Vm, early: list[str], seen: set[str]) -> Iterator[str]:
    """With one that is not met fall all that the same process heard after it."""
    spoilt: set[str] = set()
    for ticket in early:
        older = vm.state.asked[ticket].older
        to = "" if older is None else older.to
        if ticket not in seen or to in spoilt:
            spoilt |= {to} - {""}
            yield ticket


def give_up_all(vm: Vm, strand: str) -> None:
    give_up(vm, _early(vm, strand))


def _early(vm: Vm, strand: str) -> list[str]:
    return [t for t, a in vm.state.asked.items() if a.early and a.strand == strand]


def give_up(vm: Vm, tickets: list[str]) -> None:
    """Youngest first. Should the program come to one of these places after all, it asks there
    itself: what would be begun ahead of it again might be given up again."""
    state = vm.state
    for ticket in reversed(tickets):
        asked = state.asked.pop(ticket)
        vm.pending.get(asked.strand, {}).pop(ticket, None)
        if not vm.unwant(ticket):
            state.given_up[ticket] = None
            vm.want(Cancel(ticket))


class Scout(Vm):
    """A copy of a strand that goes on without it. `seen` are the early calls that it met."""

    def __init__(self, vm: Vm, strand: Strand, *, begins: bool = True) -> None:
        self.main = vm
        self.program, self.functions, self.types = vm.program, vm.functions, vm.types
        self.terrain = vm.terrain
        self.extra, self.live_registers = 0, vm.live_registers
        frames = [_copied(frame) for frame in strand.frames]
        self.strand = Strand(strand.name, frames, depth=strand.depth, changes=strand.changes)
        self.state = VmState(
            {strand.name: self.strand},
            [strand.name],
            vm.state.limits,
            scopes={**vm.state.scopes},
            spawned={**vm.state.spawned},
            window=vm.state.window,
            given_up=vm.state.given_up,
            heard={**vm.state.heard},
        )
        self.seen: set[str] = set()
        self._begins = begins
        self._room = vm.state.window - sum(asked.early for asked in vm.state.asked.values())
        self.older: list[Older] = []
        self.many = False
        self.busy: set[str] = set()
        self.passed = Effects()
        self._joined: set[int] = set()
        for ticket, asked in vm.state.asked.items():
            mine = asked.strand == strand.name and not asked.done and not asked.early
            if mine and asked.of and asked.kind != "spawn":
                self._pass(
                    self.terrain.row_of(asked.of), asked.older and _flying(asked.older, ticket)
                )

    def walk(self) -> None:
        with suppress(LookedEnoughError):
            compute(self, self.strand, _FUEL, OPS)

    # What the machine does for its strands, and a scout does not

    def want(self, want: Want) -> None:
        pass

    def unwind(self, strand: Strand, fault: Fault) -> bool:
        """Over what is unknown it goes on; a true error takes it to its handler."""
        frame = strand.frames[-1]
        op, read, written = self.terrain.regions.operands(frame.function, frame.pc - 1)
        if poisoned(read, written, frame.registers):
            return op not in _JUMPS or self.step_over(frame)
        return unwind(self, strand, fault)

    def crash(self, crash: Crash) -> None:
        pass

    # Passing over

    def step_over(self, frame: Frame) -> bool:
        """To where the ways from the last instruction meet; False when that is not to be known."""
        region = self.terrain.regions.of(frame.function, frame.pc - 1)
        if region.barrier:
            return False
        self._pass(region.row)
        if changes(region.row):
            self.strand.changes = UNCOUNTED
        self.older += [Older(agent) for agent in region.sends or ()]
        self.many |= region.sends is None
        self.busy |= {""} if region.sends is None or ANY_AGENT in region.sends else set()
        for register in region.writes:
            frame.registers[register] = Unknown(NO_BOUND)
        if region.meets >= 0:
            frame.pc = region.meets
            return True
        if len(self.strand.frames) == 1:
            return False
        self.strand.frames.pop()
        self.strand.frames[-1].registers[frame.into] = Unknown(NO_BOUND)
        return True

    def _pass(self, row: Effects, older: Older | None = None) -> None:
        if id(row) not in self._joined:
            self._joined.add(id(row))
            self.passed = joined(self.passed, row)
        if older is not None:
            self.older.append(older)

    # Calls

    def send(self, frame: Frame, operands: Operands, *, stream: bool) -> str | None:
        """The ticket under which it is asked; None when it has to wait."""
        _, to, message, answer, timeout, budget, site = operands
        r, agent = frame.registers, agent_asked(self.main, frame.registers[to])
        row = self.terrain.rows.agent(agent)
        version = version_of(self.strand, row, self.heard(agent, r[to]))
        ticket = self.ticket(frame, site, version or "")
        if agent == ANY_AGENT and changes(row):
            self.strand.changes = UNCOUNTED
        count_change(self.strand, row)
        self.count_heard(agent, r[to])
        if version is not None and ticket in self.main.state.asked:
            return self._met(ticket, row)
        read = [r[each] for each in (to, message, timeout, budget) if each >= 0]
        unknown = size_of(read)
        older = replace(
            _older(agent, unknown, read, answer, None if budget < 0 else r[budget]),
            to=r[to].path if type(r[to]) is Handle else "",
            scope=self.scope(frame),
        )
        early = self.terrain.may_be_early(agent) and self._in_line(agent, r[to])
        early &= version is not None and ticket not in self.state.given_up
        if unknown is None and early and self._may_begin(row, frame):
            want = send_wanted(self, frame, operands, ticket, stream=stream)
            asked = Asked("stream" if stream else "send", self.strand.name, answer=answer, of=agent)
            asked.older = older
            self._begin(ticket, want, asked)
            self.older.append(_flying(older, ticket))
            return ticket
        self._pass(row, older)
        if type(r[to]) is not AgentRef:
            self.busy.add(r[to].path if type(r[to]) is Handle else "")
        return None

    def _in_line(self, agent: str, to: Value) -> bool:
        """Nothing that comes before and goes to the same process has still to begin or to end: what
        it remembers is then what it will, and no timeout runs while it waits in line. A process
        without memory answers all at once, each message as if it were the only one."""
        if type(to) is not Handle or not self._remembers(agent, to):
            return True
        asked = self.main.state.asked.values()
        flying = any(a.older is not None and a.older.to == to.path and not a.done for a in asked)
        return not flying and not self.busy & {to.path, ""}

    def host(self, frame: Frame, operands: Operands) -> Value:
        _, name, args, site = operands
        rights = self.functions[frame.function].rights
        row = self.terrain.rows.host(name, rights)
        version = version_of(self.strand, row)
        ticket = self.ticket(frame, site, version or "")
        count_change(self.strand, row)
        if version is not None and ticket in self.main.state.asked:
            self._met(ticket, row)
            asked = self.main.state.asked[ticket]
            return came(asked) if asked.done else Unknown(NO_BOUND)
        known = size_of(frame.registers[each] for each in args) is None
        known &= version is not None and ticket not in self.state.given_up
        if known and self.terrain.only_reads(row) and self._may_begin(row, frame):
            want = call_wanted(self, frame, operands, ticket)
            self._begin(ticket, want, Asked("host", self.strand.name, of=f"{name}@{rights}"))
        else:
            self._pass(row)
        return Unknown(NO_BOUND)

    def _met(self, ticket: str, row: Effects) -> str:
        """What was begun early is met again, unless something before it now conflicts with it."""
        asked = self.main.state.asked[ticket]
        if asked.early and not conflict(row, self.passed):
            self.seen.add(ticket)
            if asked.older is not None and not asked.done:
                self.older.append(_flying(asked.older, ticket))
        return ticket

    def _may_begin(self, row: Effects, frame: Frame) -> bool:
        if self._begins and self._room <= 0:
            raise LookedEnoughError  # the window is full: nothing further ahead can begin
        opened = not self.scope(frame).startswith(UNOPENED)
        return opened and self._begins and not conflict(row, self.passed)

    def _begin(self, ticket: str, want: SendTo | CallHost, asked: Asked) -> None:
        self._room -= 1
        asked.early, asked.digest = True, digest128(want)
        self.main.ask(ticket, asked)
        self.main.want(Early(want, asked.older, tuple(self.older), self.many))
        self.seen.add(ticket)


def _copied(frame: Frame) -> Frame:
    """Without the groups and monitors of the call: they are the strand's own."""
    return Frame(
        frame.function,
        frame.pc,
        [*frame.registers],
        frame.place,
        frame.into,
        frame.outer,
        [*frame.scopes],
        frame.kept,
    )


def _older(
    agent: str, unknown: Unknown | None, read: Iterable[Value], answer: int, budget: Value
) -> Older:
    size, answers = sum(map(weight_of, read)), 0
    if unknown is not None:
        size, answers = unknown.size, unknown.answers
    return Older(agent, size, answers, answer >= 0, getattr(budget, "nanos", None))


def _flying(older: Older, ticket: str) -> Older:
    return replace(older, flying=ticket)
