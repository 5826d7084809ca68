"""A task machine offers what one task needs of the machine that runs it: tickets, budget scopes,
waiting, and its speculative calls (pure).

Two machines run tasks. `Vm` runs the program; `Lookahead` runs a copy of one waiting task to find
the calls that the program will make. The instructions are written against their common base, so
that neither the interpreter nor an instruction imports a machine.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

from msgspec.structs import replace

from vegakit.lang import Type
from vegakit.records import digest128
from vegakit.vm.module_facts import LoadedFunction, LoadedModule, ModuleFacts, facts_of
from vegakit.vm.requests import (
    CallHost,
    CancelRequest,
    FiberRequest,
    SendTo,
    SpeculativeCall,
    SpeculativeCallUsed,
)
from vegakit.vm.state import Crash, Frame, ProgramTask, TicketState, VmState, sweep
from vegakit.vm.values import Handle, ProgramFault, Value, bad, limit

RELOAD, STOP = 1, 2

Operands: TypeAlias = Any
InstructionHandler: TypeAlias = Callable[["TaskMachine", ProgramTask, Frame, Operands], int | None]
"""Returns None to go on with the next instruction, `RELOAD` to go on with the top frame as it is
now, or `STOP` when the task waits or has ended."""


def request_digest(request: SendTo | CallHost) -> str:
    """Return the digest by which a speculative call is compared with the one that the program
    makes. The span is left out: a call that is told of elsewhere in a trace is the same call, and
    would be paid twice."""
    return digest128(replace(request, span="") if request.span else request)


class TaskMachine(ABC):
    """`extra` is the fuel that an instruction costs beyond one. `pending` are the tickets without a
    result, by the task that asked; `speculative` those of calls that the program has not reached,
    the oldest first, and `guesses` the ones behind a guard; `waiting` the names of the tasks
    that wait for a key. `stirred` are tasks for which something has changed since the last
    lookahead, `kept_walks` lookaheads that can go on where they stopped. `unweighed` are tasks that
    ran since the state was weighed, and `weight_bound` is the most that it weighs but for them."""

    def __init__(self, program: LoadedModule, state: VmState, live_registers: int) -> None:
        self.program = program
        self.functions, self.types = program.functions, program.types
        self.state = state
        self.extra = 0
        self.live_registers = live_registers
        self.pending: dict[str, dict[str, None]] = {}
        self.speculative: dict[str, None] = {}
        self.guesses: dict[str, None] = {}
        self.stirred: dict[str, None] = {}
        self.kept_walks: dict[str, TaskMachine] = {}
        self.unweighed: dict[str, None] = {}
        self.weight_bound = 0
        self.waiting: dict[str, list[str]] = {}

    def function(self, number: int) -> LoadedFunction:
        """Return the function of this number in the module."""
        return self.functions[number]

    def type(self, number: int) -> Type:
        """Return the type of this number in the module."""
        return self.types[number]

    def request(self, request: FiberRequest) -> None:
        """Hand a request to the host."""
        self.state.outbox.append(request)

    @cached_property
    def facts(self) -> ModuleFacts:
        """Return what is known of the module, computed when it is first needed."""
        return facts_of(self.program)

    def messages_sent(self, agent: str, to: Value) -> int:
        """Return how many messages were sent to a process with memory, 0 for others."""
        return self.state.messages_sent.get(to.path, 0) if self.remembers(agent, to) else 0

    def count_message(self, agent: str, to: Value) -> None:
        """Count a message to a process with memory."""
        if self.remembers(agent, to):
            self.state.messages_sent[to.path] = self.state.messages_sent.get(to.path, 0) + 1

    def remembers(self, agent: str, to: Value) -> bool:
        """Return whether this is a process whose agent has memory."""
        spec = self.facts.effects.spec(agent) if type(to) is Handle else None
        return spec is not None and spec.memory

    def ticket(self, frame: Frame, site: int, version: str = "") -> str:
        """Return the ticket of a call. It includes the version even without speculation, because a
        run may be resumed with another window."""
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
        """Return the innermost budget scope that is still open."""
        for scope in reversed(frame.scopes):
            if scope in self.state.scopes:
                return scope
        return frame.outer

    def span(self, frame: Frame) -> str:
        """Return the innermost span of the trace that is still open."""
        return frame.spans[-1] if frame.spans else frame.within

    def has_asked(self, ticket: str, kind: str, task: ProgramTask) -> bool:
        """Return whether this task has made the request already. Raise if another one has."""
        asked = self.state.asked.get(ticket)
        if asked is None:
            return False
        if asked.kind == kind and asked.task == task.name:
            return True
        raise bad(f"{ticket:.200} is asked twice")

    def ask(self, ticket: str, asked: TicketState) -> None:
        """Enter a request, which has no result yet."""
        state = self.state
        if ticket in state.asked:
            raise bad(f"{ticket:.200} is asked twice")
        if len(state.asked) >= state.sweep_at:
            sweep(state)
        state.asked[ticket] = asked
        self.weight_bound += 1
        self.pending.setdefault(asked.task, {})[ticket] = None
        if asked.speculative:
            self.speculative[ticket] = None
        if asked.guess:
            self.guesses[ticket] = None

    def forget_asked(self, ticket: str) -> TicketState:
        """Remove a request, whether it has a result or not, and return what was known of it."""
        asked = self.state.asked.pop(ticket)
        self.pending.get(asked.task, {}).pop(ticket, None)
        self.guesses.pop(ticket, None)
        if self.speculative.pop(ticket, "") is None:
            self.kept_walks.clear()  # what follows it may not be as they thought
        return asked

    def stir(self, name: str) -> None:
        """Note that something has changed for a task, and for the members of a group that it waits
        for: they may hold its futures."""
        self.stirred[name] = None
        if name in self.state.tasks and self.state.tasks[name].waits.startswith("group "):
            self.stirred |= dict.fromkeys(self.state.tasks)

    def is_speculative(self, ticket: str) -> bool:
        """Return whether a request was begun before its turn and is not reached yet."""
        return ticket in self.speculative

    def use_speculative(self, task: ProgramTask, ticket: str, request: SendTo | CallHost) -> bool:
        """Use a speculative call if its request equals the one that the program makes. If not, the
        lookahead was wrong: cancel all speculative calls of this task, and return False."""
        asked = self.state.asked[ticket]
        if asked.digest == request_digest(request) and asked.task == task.name:
            asked.speculative, asked.digest = False, ""
            asked.guess = False
            del self.speculative[ticket]
            self.guesses.pop(ticket, None)
            self._order_last(ticket, asked)
            self.request(
                request if self.withdraw_request(ticket) else SpeculativeCallUsed(ticket, request)
            )
            return True
        self.cancel_all_speculative(task.name)
        return False

    def _order_last(self, ticket: str, asked: TicketState) -> None:
        """Put a call behind those that the program made before it, some of which may have begun
        later: requests are in the order of the program, as repeats are paid and money is kept."""
        known, pending = self.state.asked, self.pending.get(asked.task, {})
        known[ticket] = known.pop(ticket)
        if ticket in pending:
            pending[ticket] = pending.pop(ticket)

    def withdraw_request(self, ticket: str) -> bool:
        """Remove a speculative call from the outbox, if the host has not seen it yet."""
        for at, request in enumerate(self.state.outbox):
            if isinstance(request, SpeculativeCall) and request.of.ticket == ticket:
                del self.state.outbox[at]
                return True
        return False

    def speculative_tickets(self, task: str) -> list[str]:
        """Return the speculative calls of a task, the oldest first."""
        return [ticket for ticket in self.speculative if self.state.asked[ticket].task == task]

    def cancel_all_speculative(self, task: str) -> None:
        """Cancel the speculative calls of a task."""
        self.cancel_speculative(self.speculative_tickets(task))

    def cancel_speculative(self, tickets: list[str]) -> None:
        """Cancel these calls, the youngest first, and never begin them speculatively again: they
        could be cancelled again each time. If the program reaches one of them, it makes the call
        itself."""
        state = self.state
        for ticket in reversed(tickets):
            self.forget_asked(ticket)
            if not self.withdraw_request(ticket):
                state.given_up[ticket] = None
                self.request(CancelRequest(ticket))

    def cancel_guesses(self, place: str) -> None:
        """Cancel the guesses of a function that has returned: the program comes to none."""
        prefixes = f"{place}:", f"{place}/"
        tickets = [ticket for ticket in self.guesses if ticket.startswith(prefixes)]
        if tickets:
            self.cancel_speculative(tickets)

    def wait(self, task: ProgramTask, frame: Frame, key: str) -> int:
        """Suspend the task, and run its instruction again when `key` is woken."""
        frame.pc -= 1
        self.state.ready.remove(task.name)
        self.park(task, key)
        return STOP

    def park(self, task: ProgramTask, key: str) -> None:
        """Let a task wait for a key."""
        task.waits = key
        self.waiting.setdefault(key, []).append(task.name)

    def wake(self, key: str) -> None:
        """Make the tasks that wait for `key` ready, in the order in which they were made. A
        restored machine knows no other order."""
        woken = self.waiting.pop(key, ())
        if len(woken) > 1:
            several = frozenset(woken)
            woken = [name for name in self.state.tasks if name in several]
        self.state.ready += woken

    def forget(self, task: ProgramTask) -> None:
        """Remove a task, whether it is ready or waits."""
        if self.state.window:
            self.cancel_all_speculative(task.name)
        self.kept_walks.pop(task.name, None)
        del self.state.tasks[task.name]
        if task.name in self.state.ready:
            self.state.ready.remove(task.name)
        waiting = self.waiting.get(task.waits, [])
        if task.name in waiting:
            waiting.remove(task.name)

    def inherit(self, task: str, heir: str) -> None:
        """Pass the pending requests of a task to another one."""
        tickets = self.pending.pop(task, {})
        for ticket in tickets:
            self.state.asked[ticket].task = heir
        if tickets:
            self.pending.setdefault(heir, {}).update(tickets)

    def take_registers(self, count: int) -> None:
        """Count the registers of a new call, or raise if there are too many."""
        if self.live_registers + count > self.state.limits.registers:
            raise limit(f"at most {self.state.limits.registers:,} variables live at once")
        self.live_registers += count
        self.extra += count >> 6

    def stack(self, task: ProgramTask) -> tuple[tuple[str, str, int], ...]:
        """Return the calls of a task, innermost first, with those below the task it was split
        from."""
        calls: list[tuple[str, str, int]] = []
        frames = task.frames
        while True:
            for frame in reversed(frames):
                function = self.functions[frame.function]
                calls.append((function.name, function.file, function.lines[max(frame.pc - 1, 0)]))
            group = self.state.groups.get(task.group)
            if group is None:
                return tuple(calls)
            task = self.state.tasks[group.owner]
            frames = task.frames[: group.frame]

    # The end of a call, a task or the program

    @abstractmethod
    def unwind(self, task: ProgramTask, fault: ProgramFault) -> bool:
        """Return whether a handler of the task goes on with the error."""

    @abstractmethod
    def finish(self, value: Value) -> None:
        """End the program with this result."""

    @abstractmethod
    def exit(self, task: ProgramTask, reason: str) -> None:
        """End the program's process, as `exit` in the program asks for."""

    @abstractmethod
    def crash(self, crash: Crash) -> None:
        """End the program with an error that nothing handled."""

    @abstractmethod
    def end_groups(self, frame: Frame) -> None:
        """Cancel the groups of tasks that this call has not joined."""

    @abstractmethod
    def end_tasks(self, names: list[str]) -> None:
        """Cancel these tasks and all that they started."""
