"""Lookahead: calls that the program will make are begun while it waits for an earlier one (pure).

The program itself runs strictly in order. When it waits, the lookahead runs on from there with a
copy of the waiting task, with `UnknownValue` in place of missing results, and begins every call
that may be speculative. When the program reaches such a call, it uses it if its own request is
equal, and makes the call again if not. So the lookahead can begin too few calls, which costs time,
or wasted ones, which cost money; it cannot change what the program does.

| the lookahead meets                  | and                                                       |
|--------------------------------------|-----------------------------------------------------------|
| a send or a host call that only      | begins it, if its operands are known, it conflicts with   |
| reads                                | nothing that was passed over, and the window has room     |
| a write, a print                     | passes over it, and remembers its effect set              |
| a jump that cannot be decided yet    | steps over the region to where the branches meet; ends if |
|                                      | one of them raises an error that nobody catches           |
| a result that is an error            | continues in its handler, as the program will             |
| a pause, a question to a person or   | ends                                                      |
| about the budget, a group, a         |                                                           |
| monitor, the last return             |                                                           |
| a cast of what is not known yet to   | ends                                                      |
| one text, as `as "yes"`              |                                                           |
| what may fail into a `catch` that    | ends                                                      |
| asks a person                        |                                                           |
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeAlias, cast

from msgspec.structs import replace

from vegakit.lang import (
    ANY_AGENT,
    NO_EFFECTS,
    PAUSES,
    STOPS,
    EffectSet,
    Op,
    changes,
    conflict,
    joined,
    only_reads,
)
from vegakit.vm.effect_instructions import (
    SPAN,
    UNCOUNTED,
    count_change,
    host_call_request,
    path_given,
    receiving_agent,
    send_request,
    version_of,
)
from vegakit.vm.instructions import (
    CALL_INSTRUCTIONS,
    DATA_INSTRUCTIONS,
    close_scopes,
    leave_round,
)
from vegakit.vm.interpreter import compute
from vegakit.vm.module_facts import (
    COLD,
    HOT,
    NO_BOUND,
    LookaheadLimitError,
    poisoned,
    size_of,
)
from vegakit.vm.requests import CallHost, FiberRequest, PriorSend, SendTo, SpeculativeCall
from vegakit.vm.state import Crash, Frame, ProgramTask, TicketState, VmState, fault_of
from vegakit.vm.stdlib import call_pure
from vegakit.vm.task_machine import (
    RELOAD,
    STOP,
    InstructionHandler,
    Operands,
    TaskMachine,
    request_digest,
)
from vegakit.vm.tasks import unwind
from vegakit.vm.values import (
    AgentRef,
    Future,
    Handle,
    ProgramFault,
    StreamRef,
    UnknownValue,
    Value,
    weight_of,
)

# What the lookahead does at each instruction. Plain computation is that of the machine. The
# instructions that end it are not in the table: `vega explain` tells of them by the same set.


UNOPENED = "?"
"""The first character of the name of a session that the program has not entered yet."""

_LookaheadHandler: TypeAlias = "Callable[[Lookahead, ProgramTask, Frame, Operands], int | None]"


def value_or_raise(asked: TicketState) -> Value:
    """Return the result of a request that is done, or raise its error."""
    if asked.error is not None:
        raise fault_of(asked.error)
    return asked.value


def _force(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> int | None:
    into, of = operands
    value = frame.registers[of]
    kind = -1
    if type(value) is Future:
        vm.go_further()
        asked = vm.main.state.asked.get(value.ticket)
        if asked is not None and asked.kind == "spawn" and not asked.done:
            value = UnknownValue(NO_BOUND, 0, asked.of)
        else:
            value = (
                value_or_raise(asked) if asked is not None and asked.done else UnknownValue(0, 1)
            )
            kind = -1 if asked is None else asked.answer
    frame.registers[into] = value
    if type(value) is not UnknownValue:
        return None
    if vm.facts.rules.is_literal(kind) and not vm.passes(frame, into, kind):
        return STOP
    return vm.doubt(frame)


def _send(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> int | None:
    ticket = vm.send(frame, operands, stream=False)
    kind = operands[3]
    frame.registers[operands[0]] = UnknownValue(0, 1) if ticket is None else Future(ticket)
    if ticket is None and vm.facts.rules.is_literal(kind):
        return None if vm.passes(frame, operands[0], kind) else STOP
    return None


def _send_stream(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> None:
    ticket = vm.send(frame, operands, stream=True)
    frame.registers[operands[0]] = UnknownValue(0, 1) if ticket is None else StreamRef(ticket)


def _host(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> int | None:
    if operands[1] in PAUSES:
        return STOP
    if operands[1] == SPAN:
        # Entered here as well, so that a call that is begun early is told of where it belongs.
        vm.is_clean = False
        span = vm.ticket(frame, operands[3])
        leave_round(vm, frame, span)
        frame.spans = (*frame.spans, span)
    value = frame.registers[operands[0]] = vm.host(frame, operands)
    return vm.doubt(frame) if type(value) is UnknownValue else None


def _spawn(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, agent, wallet, *_ = operands
    name = frame.registers[agent]
    vm.many |= wallet >= 0
    vm.is_clean = False
    known = name.name if type(name) is AgentRef else ""
    frame.registers[into] = UnknownValue(NO_BOUND, 0, known)


def _unread(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> int | None:
    """Only the program reads from a stream."""
    vm.is_clean = False
    frame.registers[operands[0]] = UnknownValue(NO_BOUND)
    return vm.doubt(frame)


def _passed(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> None:
    pass


def _over(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> int:
    return STOP


def _return(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> int | None:
    if len(task.frames) == 1 or not vm.may_leave(frame):
        return STOP
    return CALL_INSTRUCTIONS[Op.RETURN](vm, task, frame, operands)


def _cast(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> int | None:
    """A text that is not known yet is refused unless it is the one that is asked for."""
    into, of, kind = operands
    if type(frame.registers[of]) is UnknownValue and vm.facts.rules.is_literal(kind):
        return None if vm.passes(frame, into, kind) else STOP
    return DATA_INSTRUCTIONS[Op.CAST](vm, task, frame, operands)


def _raise(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> None:
    raise ProgramFault(operands[0], "")


def _jump_if_null(
    vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands
) -> int | None:
    if type(frame.registers[operands[0]]) is not UnknownValue:
        return DATA_INSTRUCTIONS[Op.JUMP_IF_NULL](vm, task, frame, operands)
    return RELOAD if vm.step_over(frame) else STOP


def _text(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> int | None:
    into, of = operands
    unknown = size_of(frame.registers[each] for each in of)
    if unknown is None:
        return DATA_INSTRUCTIONS[Op.TEXT](vm, task, frame, operands)
    frame.registers[into] = unknown
    return None


def _library(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> int | None:
    into, name, of = operands
    args = [frame.registers[each] for each in of]
    unknown = size_of(args)
    if unknown is None:
        return DATA_INSTRUCTIONS[Op.LIBRARY](vm, task, frame, operands)
    known_length = name in _LENGTHS and type(args[0]) is not UnknownValue
    frame.registers[into] = call_pure(name, args) if known_length else unknown
    return None if known_length else vm.doubt(frame)


_LENGTHS = frozenset({"len", "list::len"})


def _enter(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> None:
    """Enter a session. Its money is set aside only when the program enters it, so no call inside
    may begin."""
    vm.is_clean = False
    scope = f"{UNOPENED}{len(vm.state.scopes)}"
    vm.state.scopes[scope] = vm.scope(frame)
    frame.scopes.append(scope)
    vm.many = True


def _exit(vm: "Lookahead", task: ProgramTask, frame: Frame, operands: Operands) -> int | None:
    if len(frame.scopes) <= frame.kept:
        return STOP
    close_scopes(vm, frame, len(frame.scopes) - 1)
    return None


_HANDLERS: Mapping[Op, _LookaheadHandler] = (
    DATA_INSTRUCTIONS
    | CALL_INSTRUCTIONS
    | {
        Op.JUMP_IF_NULL: _jump_if_null,
        Op.TEXT: _text,
        Op.CAST: _cast,
        Op.LIBRARY: _library,
        Op.RAISE: _raise,
        Op.RETURN: _return,
        Op.FORCE: _force,
        Op.ISSUE_SEND: _send,
        Op.SEND_STREAM: _send_stream,
        Op.HOST: _host,
        Op.PRINT: _passed,
        Op.SPAWN_SUPERVISED: _spawn,
        Op.STREAM_DONE: _unread,
        Op.STREAM_NEXT: _unread,
        Op.BUDGET_ENTER: _enter,
        Op.BUDGET_EXIT: _exit,
    }
)
assert _HANDLERS.keys() | {Op[name] for name in HOT} | {Op.AGENT} == {*Op} - STOPS
OPS = cast("Mapping[int, InstructionHandler]", {COLD + op: _HANDLERS.get(op, _over) for op in Op})


# A lookahead.


FUEL = 20_000
"""The fuel of one lookahead, which does not count as the program's."""

_MOST_PATHS = 200
"""How many files a lookahead tells apart. Behind them a file is one of those that its function may
touch, since each is compared with each."""

_JUMPS = frozenset({Op.JUMP_IF, Op.JUMP_IF_NOT, Op.JUMP_IF_NULL, Op.NEXT})
_NEVER_RAISE = frozenset({Op.EQ, Op.NE, Op.NOT, Op.ITEMS, Op.PAIRS})
"""Instructions that raise nothing the checker has not excluded, whatever an unknown value is."""


class Lookahead(TaskMachine):
    """A machine that runs a copy of a waiting task. `seen` are the speculative calls that it
    reached. `reach` is how many calls and awaited results it may pass, `farthest` behind how many
    it began the last call. `held_back` says that a call may begin later without anything that
    happens in this task, and `is_clean` that nothing was passed over so far. `met_guard` says that
    it met a guard that is not decided. One that `guesses` passes that guard as the program may, and
    a call that it begins behind is a guess."""

    def __init__(
        self,
        vm: TaskMachine,
        task: ProgramTask,
        *,
        begins: bool = True,
        reach: int = FUEL,
        guesses: bool = False,
    ) -> None:
        # Copies, because the walk writes registers, opens scopes and leaves calls, and the program
        # goes on from where it waits as if none of that had been.
        frames = [_copied(frame) for frame in task.frames]
        self.task = ProgramTask(task.name, frames, depth=task.depth, changes=task.changes)
        state = VmState(
            {task.name: self.task},
            [task.name],
            vm.state.limits,
            scopes={**vm.state.scopes},
            spawned={**vm.state.spawned},
            window=vm.state.window,
            given_up=vm.state.given_up,
            messages_sent={**vm.state.messages_sent},
        )
        super().__init__(vm.program, state, vm.live_registers)
        self.main = vm
        self.facts = vm.facts
        self.seen: set[str] = set()
        self._begins = begins
        self._room = vm.state.window - len(vm.speculative)
        self._reach, self._passed_over, self.farthest = reach, 0, 0
        self.held_back, self.is_clean, self._is_over = False, True, False
        self._met_older: list[PriorSend] = []
        self.many = False
        self.busy: set[str] = set()
        self._met_effects = NO_EFFECTS
        self._joined: dict[int, EffectSet] = {}
        self._paths_met = 0
        self._is_full = False
        self._known_pending: tuple[EffectSet, list[PriorSend]] | None = None
        self._doubtful: set[int] = set()
        self.met_guard = False
        self._assumes = guesses

    @property
    def _pending(self) -> tuple[EffectSet, list[PriorSend]]:
        """Return the effects and sends of this task without a result. They come before all that the
        walk meets: nothing may begin that conflicts with them, and the money they may take is not
        free. A spawn is left out, because nobody has asked its process anything yet. There may be
        thousands, so they are looked at when a call could begin, which is seldom."""
        if self._known_pending is not None:
            return self._known_pending
        vm, effect_set = self.main, NO_EFFECTS
        older: list[PriorSend] = []
        kinds: set[tuple[str, str]] = set()
        for ticket in vm.pending.get(self.task.name, ()):
            asked = vm.state.asked[ticket]
            if asked.speculative or not asked.of or asked.kind == "spawn":
                continue
            if (asked.of, asked.path) not in kinds:
                kinds.add((asked.of, asked.path))
                effect_set = joined(effect_set, self.facts.effects_of(asked.of, asked.path))
            if asked.older is not None:
                older.append(_as_in_flight(asked.older, ticket))
        self._known_pending = effect_set, older
        return self._known_pending

    @property
    def _is_guess(self) -> bool:
        """Return whether what the walk begins here depends on a guard that is not decided."""
        return self._assumes and self.met_guard

    def _conflicts(self, effect_set: EffectSet) -> bool:
        """Return whether something conflicts with what comes before it and has no result."""
        return conflict(effect_set, self._met_effects) or conflict(effect_set, self._pending[0])

    def walk(self) -> None:
        """Run the copy of the task until it ends, cannot go on, or has used its fuel or gone as far
        as it may."""
        self._is_full = False
        with suppress(LookaheadLimitError):
            self._is_over = compute(self, self.task, FUEL, OPS) > 0

    @property
    def is_sure(self) -> bool:
        """Return whether the program will do all that the walk has done, up to its end or to where
        the window was full, and every call that it passed was begun. Then it can go on."""
        return self.is_clean and (self._is_full or self._is_over)

    def go_on(self) -> None:
        """Walk on from where the window was full."""
        vm = self.main
        self._known_pending = None
        self._met_older = [one for one in self._met_older if one.in_flight in vm.speculative]
        self._room = vm.state.window - len(vm.speculative)
        self._passed_over, self._reach = 0, FUEL
        self.held_back = False
        if not self._is_over:
            self.walk()

    def go_further(self) -> None:
        """Count a call or an awaited result that is passed, or end the walk."""
        if self._begins and self._room <= 0:
            # The window is full: nothing further ahead can begin.
            self.task.frames[-1].pc -= 1
            self.held_back = self._is_full = True
            raise LookaheadLimitError
        self._passed_over += 1
        if self._passed_over > self._reach:
            raise LookaheadLimitError

    # A lookahead makes no requests by itself and ends nothing

    def request(self, request: FiberRequest) -> None:
        pass

    def unwind(self, task: ProgramTask, fault: ProgramFault) -> bool:
        """Continue after an instruction that failed because of an unknown value. A real error goes
        to its handler."""
        frame = task.frames[-1]
        op, read, written = self.facts.regions.operands(frame.function, frame.pc - 1)
        if not poisoned(read, written, frame.registers):
            return unwind(self, task, fault)
        if op in _JUMPS:
            return self.step_over(frame)
        return op in _NEVER_RAISE or self.doubt(frame) is None

    def finish(self, value: Value) -> None:
        pass

    def exit(self, task: ProgramTask, reason: str) -> None:
        pass

    def crash(self, crash: Crash) -> None:
        pass

    def end_groups(self, frame: Frame) -> None:
        pass

    def end_tasks(self, names: list[str]) -> None:
        pass

    # Failures that the walk assumes away

    def doubt(self, frame: Frame) -> int | None:
        """Note that something in this call may still fail. End the walk if a `catch` around it asks
        a person then: nothing behind may begin before the answer."""
        self._doubtful.add(id(frame))
        rules = self.facts.rules
        asks = rules.asks_on_failure(frame.function, frame.pc - 1, guards=self._is_guess)
        self.is_clean &= not asks  # the answer will let a later walk pass this place
        return STOP if asks else None

    def may_leave(self, frame: Frame) -> bool:
        """Return whether the walk may continue in the caller, which a late failure in this call
        leads to."""
        if id(frame) not in self._doubtful:
            return True
        self._doubtful.remove(id(frame))
        return self.doubt(self.task.frames[-2]) is None

    # Guards: failures and early returns that the author of the program wrote

    def passes(self, frame: Frame, into: int, kind: int) -> bool:
        """Return whether the walk passes a value that is refused unless it is the one text that
        fits, as if it were that text."""
        if passes := self.meet_guard(frame):
            frame.registers[into] = self.facts.rules.literal(kind)
        return passes

    def meet_guard(self, frame: Frame) -> bool:
        """Note that a guard is met which is not decided yet. Return whether the walk passes it as
        the program may; not if a person is asked when the program does not."""
        self.met_guard = True
        self.is_clean = False
        return self._assumes and self.doubt(frame) is None

    # Passing over

    def step_over(self, frame: Frame) -> bool:
        """Step to where the branches of the last instruction meet. Return False if that is unknown,
        or if a branch may end the program."""
        self.is_clean = False
        passed = self.facts.regions.guard(frame.function, frame.pc - 1)
        if passed >= 0 and self.meet_guard(frame):
            frame.pc = passed
            return True
        region = self.facts.regions.of(frame.function, frame.pc - 1)
        if region.barrier:
            return False
        self._pass(region.effect_set)
        if changes(region.effect_set):
            # Which of the branches will run is unknown, so how much they change is too. A later
            # read has no version then, and waits for its turn.
            self.task.changes = UNCOUNTED
        self._met_older += [PriorSend(agent) for agent in region.sends or ()]
        self.many |= region.sends is None
        # Any process may have got a message in there: the empty path stands for all of them.
        self.busy |= {""} if region.sends is None or ANY_AGENT in region.sends else set()
        for register in region.writes:
            frame.registers[register] = UnknownValue(NO_BOUND)
        if region.meets >= 0:
            if region.scopes >= 0:
                close_scopes(self, frame, region.scopes)
            frame.pc = region.meets
            return True
        # The branches meet where the function ends, so the walk goes on in its caller.
        if len(self.task.frames) == 1:
            return False
        self._doubtful.add(id(frame))
        if not self.may_leave(frame):
            return False
        self.task.frames.pop()
        caller = self.task.frames[-1]
        caller.registers[frame.into] = UnknownValue(NO_BOUND)
        # An error that leaves the function leads on in its caller as one that is raised there.
        return self.step_over(caller) if region.raises else True

    def _pass(self, effect_set: EffectSet, older: PriorSend | None = None) -> None:
        self.is_clean = False
        # By identity: a loop passes over the same set in every round, and joining sets is slow.
        if id(effect_set) not in self._joined:
            self._joined[id(effect_set)] = effect_set
            self._met_effects = joined(self._met_effects, effect_set)
        if older is not None:
            self._met_older.append(older)

    # Calls

    def send(self, frame: Frame, operands: Operands, *, stream: bool) -> str | None:
        """Return the ticket of a send, begun or found; None if it has to wait for its turn."""
        self.go_further()
        _, to, message, answer, timeout, budget, site = operands
        r, agent = frame.registers, receiving_agent(self.main, frame.registers[to])
        effect_set = self.facts.effects.agent(agent)
        version = version_of(self.task, effect_set, self.messages_sent(agent, r[to]))
        ticket = self.ticket(frame, site, version or "")
        # Counted whether it begins or not: the program will have made this send by the time it
        # makes the next one, whose ticket says how many came before.
        if agent == ANY_AGENT and changes(effect_set):
            self.task.changes = UNCOUNTED
        count_change(self.task, effect_set)
        self.count_message(agent, r[to])
        if version is not None and ticket in self.main.state.asked:
            return self._met(ticket, effect_set)
        read = [r[each] for each in (to, message, timeout, budget) if each >= 0]
        unknown = size_of(read)
        older = replace(
            _older(agent, r[message], answer, None if budget < 0 else r[budget], unknown),
            to=r[to].path if type(r[to]) is Handle else "",
            scope=self.scope(frame),
        )
        speculative = not self.facts.rules.why_in_order(agent) and self._in_line(agent, r[to])
        speculative &= version is not None and ticket not in self.state.given_up
        # A guess is taken back without a trace: no process hears it, and no host is reached.
        speculative &= not self._is_guess or (type(r[to]) is AgentRef and not effect_set.gets)
        if unknown is None and speculative and self._may_begin(effect_set, frame):
            request = send_request(self, frame, operands, ticket, stream=stream)
            asked = TicketState(
                "stream" if stream else "send", self.task.name, answer=answer, of=agent
            )
            asked.older = older
            self._begin(ticket, request, asked)
            self._met_older.append(_as_in_flight(older, ticket))
            return ticket
        self._pass(effect_set, older)
        if type(r[to]) is not AgentRef:
            self.busy.add(r[to].path if type(r[to]) is Handle else "")
        return None

    def _in_line(self, agent: str, to: Value) -> bool:
        """Return whether no earlier message to the same process has still to begin or to end. Only
        then does the process remember what it will remember in sequential order, and no timeout
        runs while the message waits in its mailbox. A process without memory answers all messages
        at once, each as if it were the only one."""
        if type(to) is not Handle or not self.remembers(agent, to):
            return True
        asked = self.main.state.asked.values()
        in_flight = any(a.older is not None and a.older.to == to.path and not a.done for a in asked)
        self.held_back |= in_flight  # which may be a message of another task
        return not in_flight and not self.busy & {to.path, ""}

    def host(self, frame: Frame, operands: Operands) -> Value:
        """Return the result of a host call, if it has one. A call that only reads is begun if it
        may be."""
        self.go_further()
        _, name, args, site = operands
        rights = self.functions[frame.function].rights
        path = path_given(frame, operands) if self._paths_met < _MOST_PATHS else ""
        effect_set = self.facts.effects_of(f"{name}@{rights}", path)
        self._paths_met += bool(path)
        version = version_of(self.task, effect_set)
        ticket = self.ticket(frame, site, version or "")
        count_change(self.task, effect_set)
        if version is not None and ticket in self.main.state.asked:
            self._met(ticket, effect_set)
            asked = self.main.state.asked[ticket]
            return value_or_raise(asked) if asked.done else UnknownValue(NO_BOUND)
        known = size_of(frame.registers[each] for each in args) is None
        known &= version is not None and ticket not in self.state.given_up
        may_read = only_reads(effect_set) and not self._is_guess
        if known and may_read and self._may_begin(effect_set, frame):
            request = host_call_request(self, frame, operands, ticket)
            asked = TicketState("host", self.task.name, of=f"{name}@{rights}", path=path)
            self._begin(ticket, request, asked)
        else:
            self._pass(effect_set)
        return UnknownValue(NO_BOUND)

    def _met(self, ticket: str, effect_set: EffectSet) -> str:
        """Count a speculative call as reached, unless it now conflicts with something before it."""
        asked = self.main.state.asked[ticket]
        if asked.speculative and not self._conflicts(effect_set):
            self.seen.add(ticket)
            if asked.older is not None and not asked.done:
                self._met_older.append(_as_in_flight(asked.older, ticket))
        return ticket

    def _may_begin(self, effect_set: EffectSet, frame: Frame) -> bool:
        opened = not self.scope(frame).startswith(UNOPENED)
        return opened and self._begins and not self._conflicts(effect_set)

    def _begin(self, ticket: str, request: SendTo | CallHost, asked: TicketState) -> None:
        self._room -= 1
        self.farthest = self._passed_over
        # The program compares the digest when it gets here: a call that began under a wrong
        # assumption has another request.
        asked.speculative, asked.digest = True, request_digest(request)
        asked.guess = self._is_guess
        self.main.ask(ticket, asked)
        older = (*self._pending[1], *self._met_older)
        self.main.request(
            SpeculativeCall(request, asked.older, older, self.many, guess=self._is_guess)
        )
        self.seen.add(ticket)


def _copied(frame: Frame) -> Frame:
    """Copy a frame without the groups and monitors of its call, which belong to the real task."""
    return Frame(
        frame.function,
        frame.pc,
        [*frame.registers],
        frame.place,
        frame.into,
        frame.outer,
        [*frame.scopes],
        frame.kept,
        within=frame.within,
        spans=frame.spans,
    )


def _older(
    agent: str, message: Value, answer: int, budget: Value, unknown: UnknownValue | None
) -> PriorSend:
    """Return how a send is priced, of which something may be `unknown`. Only its message counts:
    that the process it goes to is not spawned yet makes it no longer."""
    size, answers = weight_of(message), 0
    if unknown is not None and (unknown := size_of([message])) is not None:
        size, answers = unknown.size, unknown.answers
    return PriorSend(agent, size, answers, answer >= 0, getattr(budget, "nanos", None))


def _as_in_flight(older: PriorSend, ticket: str) -> PriorSend:
    return replace(older, in_flight=ticket)
