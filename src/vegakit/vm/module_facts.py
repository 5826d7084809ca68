"""A module made ready to run: decoded instructions, control flow, effects (pure).

Plain computation is numbered from 0, the most frequent first, with its operands spread out: the
interpreter unpacks four values and compares numbers. All other instructions keep their number from
the table, above those, with their operands in one tuple.

The branches of a jump meet at its immediate post-dominator: the first instruction on every path to
the end of the function. The instructions that can be reached before it are the region of the jump.
It is computed from the bytecode and its handlers alone, so `break`, `continue`, `return` and `fail`
need no rule of their own: with a `return` inside, the branches meet only at the end of the
function, and with a `fail` that a `try` around it catches, behind that `try`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from vegakit.lang import (
    ANY_AGENT,
    CARVES,
    NO_EFFECTS,
    SENDS,
    EffectSet,
    Function,
    Handler,
    Module,
    ModuleEffects,
    Op,
    SpeculationRules,
    Type,
    joined,
    on_path,
)
from vegakit.vm.values import (
    AgentRef,
    ListValue,
    MapValue,
    ProgramFault,
    UnknownValue,
    Value,
    restored,
    weight_of,
)

# Symbolic values: what the lookahead does not know yet (pure).
#
# An `UnknownValue` occurs only in the registers of a lookahead. It can be moved and put into
# lists. An instruction that computes with it fails, and its result is unknown as well. It carries
# a bound on its length as text, so that a send that contains it can be priced.


NO_BOUND = -1
_MOST_WALKED = 20_000
_HOLDS = frozenset({UnknownValue, ListValue, MapValue})
"""The types of values that can be unknown or contain something unknown."""


class LookaheadLimitError(Exception):
    """Ends a lookahead. It is not a `ProgramFault`, because those go to the handlers of the
    program, and the end of a lookahead must not be taken for an error of the program."""


_STRICT = [False]
_REPORTERS: list["Callable[[str, Exception], None]"] = []


def on_lookahead_bug(report: "Callable[[str, Exception], None]") -> None:
    """Set who is told of a bug in the lookahead: this package is pure and writes no log."""
    _REPORTERS[:] = [report]


def strict_lookahead(*, on: bool) -> None:
    """Set whether a bug in the lookahead raises, as tests and campaigns need it."""
    _STRICT[0] = on


@contextmanager
def never_fails(what: str) -> Generator[None]:
    """Guard the lookahead. A bug in it is reported and costs the overlap, and the program continues
    in order. A `ProgramFault` that gets here is an error of the program, which will reach it by
    itself."""
    try:
        yield
    except (LookaheadLimitError, ProgramFault):
        pass
    except Exception as error:
        if _STRICT[0]:
            raise
        for report in _REPORTERS:
            report(what, error)


def size_of(values: Iterable[Value]) -> UnknownValue | None:
    """Return None if all values are known, else a bound on their text: known bytes and unknown
    results."""
    values = [*values]
    if _HOLDS.isdisjoint(map(type, values)):
        return None
    size, answers, found, walked = 0, 0, False, 0
    due = values
    while due:
        value = due.pop()
        walked += 1
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is UnknownValue:
            found = True
            size = NO_BOUND if NO_BOUND in (size, value.size) else size + value.size
            answers += value.answers
        elif kind is ListValue or kind is MapValue:
            due += value if kind is ListValue else value.values()
        elif size != NO_BOUND:
            size += weight_of(value)
        if walked > _MOST_WALKED:
            raise LookaheadLimitError
    return UnknownValue(size, answers) if found else None


def poisoned(read: Sequence[int], written: Sequence[int], registers: list[Value]) -> bool:
    """Return whether an instruction reads something unknown; then mark what it writes as
    unknown."""
    unknown = size_of([registers[each] for each in read])
    if unknown is None:
        return False
    for each in written:
        registers[each] = unknown
    return True


# Loading: constants become values, and each instruction becomes four values.


Of = TypeVar("Of")
Made = TypeVar("Made")
DecodedInstruction: TypeAlias = tuple[int, Any, Any, Any]
HandlerEntry: TypeAlias = tuple[int, int, int, tuple[str, ...], int, int]

HOT: tuple[str, ...] = (
    "ADD LT JUMP_IF_NOT JUMP CONST MOVE EQ SUB NEXT ROUND MUL MOD LE JUMP_IF NE NOT INDEX FIELD DIV"
).split()  # pyright: ignore[reportAssignmentType]
_NUMBERS = {name: number for number, name in enumerate(HOT)}
JUMP = _NUMBERS["JUMP"]
COLD = 64
"""Added to the table's number of each instruction that the interpreter does not run itself."""


class LoadedFunction(NamedTuple):
    """A function. `sites` holds for each site its ordinal and the registers of the loops around it;
    `handlers` holds start, end, target, kinds, the register for the reason, and how many scopes
    stay open."""

    name: str
    file: str
    params: tuple[Type, ...]
    registers: int
    code: tuple[DecodedInstruction, ...]
    lines: tuple[int, ...]
    sites: tuple[tuple[int, tuple[int, ...]], ...]
    handlers: tuple[HandlerEntry, ...]
    rights: int


class LoadedModule(NamedTuple):
    """A module whose constants are values and whose instructions are decoded."""

    module: Module
    functions: tuple[LoadedFunction, ...]
    constants: tuple[Value, ...]
    types: tuple[Type, ...]


def load(module: Module) -> LoadedModule:
    """Load a verified module. The last few are cached, since one module runs many times."""
    return _LOADED.of(module)


class RecentCache(Generic[Of, Made]):
    """A cache of what is made from an object, for the last few objects, by identity because they
    are large."""

    def __init__(self, make: Callable[[Of], Made]) -> None:
        self._make = make
        self._kept: dict[int, tuple[Of, Made]] = {}

    def of(self, one: Of) -> Made:
        """Return what is made from an object, made now if it is not kept."""
        kept = self._kept.get(id(one))
        if kept is not None and kept[0] is one:
            return kept[1]
        if len(self._kept) >= _KEPT:
            del self._kept[next(iter(self._kept))]
        made = self._make(one)
        self._kept[id(one)] = one, made
        return made

    def clear(self) -> None:
        """Forget all that is kept."""
        self._kept.clear()


_KEPT = 16


def _loaded(module: Module) -> LoadedModule:
    constants = tuple(restored(constant) for constant in module.constants)
    functions = tuple(_call(function, constants) for function in module.functions)
    return LoadedModule(module, functions, constants, module.types)


_LOADED = RecentCache(_loaded)


def _call(function: Function, constants: tuple[Value, ...]) -> LoadedFunction:
    return LoadedFunction(
        function.name,
        function.file,
        function.params,
        function.registers,
        tuple(_decoded(instruction, constants) for instruction in function.code),
        function.lines,
        tuple((site.ordinal, tuple(site.loops)) for site in function.sites),
        tuple((h.start, h.end, h.target, h.kinds, h.reason, h.scopes) for h in function.handlers),
        function.rights,
    )


def _decoded(instruction: tuple[Any, ...], constants: tuple[Value, ...]) -> DecodedInstruction:
    op, operands = Op(instruction[0]), [*instruction[1:]]
    for at, kind in enumerate(op.operands):
        if kind == "k":
            operands[at] = constants[operands[at]]
    if op is Op.AGENT:
        return (_NUMBERS["CONST"], operands[0], AgentRef(operands[1]), None)
    if op.name not in _NUMBERS:
        return (COLD + op, tuple(operands), None, None)
    if op is Op.NEXT:
        into, items, counter, end = operands
        return (_NUMBERS["NEXT"], into, items, (counter, end))
    a, b, c = [*operands, None, None][:3]
    return (_NUMBERS[op.name], a, b, c)


# Regions: where the branches of an undecided jump meet, and what lies between.


RawInstruction: TypeAlias = Sequence[Any]

_ENDS = frozenset({Op.RETURN, Op.RAISE, Op.EXIT, Op.TASK_END, Op.RACE_WON})
_FORKS = frozenset({Op.JUMP_IF, Op.JUMP_IF_NOT, Op.JUMP_IF_NULL, Op.NEXT, Op.MONITOR})
_CALLS = SENDS | {Op.HOST, Op.CALL}
_TESTS = frozenset({Op.JUMP_IF, Op.JUMP_IF_NOT, Op.JUMP_IF_NULL})
_FAILS = frozenset({Op.RAISE})
_LEAVES = frozenset({Op.RAISE, Op.RETURN})
_MOST_IN_GUARD = 64
"""The longest code of the branch of a guard that fails or returns."""


class Region(NamedTuple):
    """The code between a jump and the instruction where its branches meet. `meets` is that
    instruction, -1 for the end of the function. `sends` are the agents that it may send to, None if
    nobody knows how often. `scopes` is how many budget scopes of the call are open where they meet,
    -1 if that is not known. `raises` says that an error may leave the function there."""

    meets: int
    writes: frozenset[int]
    effect_set: EffectSet
    sends: tuple[str, ...] | None
    barrier: bool
    scopes: int = -1
    raises: bool = False


def registers_of(instruction: RawInstruction, kinds: str) -> Iterator[int]:
    """Yield the registers among the operands of these kinds: `w` and `ws` are written, others are
    read."""
    for kind, operand in zip(Op(instruction[0]).operands, instruction[1:], strict=True):
        if kind[0] not in kinds:
            continue
        if isinstance(operand, int):
            if operand >= 0:
                yield operand
        else:
            yield from operand


class Regions:
    """The regions of one module, each computed when it is first stepped over."""

    def __init__(self, effects: ModuleEffects, rules: SpeculationRules, module: Module) -> None:
        self._effects = effects
        self._rules = rules
        self._functions = module.functions
        self._flows: dict[int, _Flow] = {}
        self._found: dict[tuple[int, int], Region] = {}
        self._operands: dict[tuple[int, int], tuple[int, tuple[int, ...], tuple[int, ...]]] = {}
        self._whole: dict[int, Region] = {}
        self._guards: dict[tuple[int, int], int] = {}
        self._returning: dict[int, bool] = {}
        self._quiet: dict[int, int] = {}

    def is_quiet(self, function: int, at: int) -> bool:
        """Return whether no call follows from here on, on any way."""
        start = self._quiet.get(function)
        if start is None:
            start = self._quiet[function] = _quiet_from(self._functions[function])
        return at >= start

    def operands(self, function: int, at: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return the number of an instruction, and the registers that it reads and writes."""
        key = function, at
        found = self._operands.get(key)
        if found is None:
            instruction = self._functions[function].code[at]
            read, written = (
                tuple(registers_of(instruction, "ro")),
                tuple(registers_of(instruction, "w")),
            )
            found = self._operands[key] = instruction[0], read, written
        return found

    def of(self, function: int, at: int) -> Region:
        """Return the region of the jump at this instruction, or of a call that may raise."""
        key = function, at
        found = self._found.get(key)
        if found is None:
            flow = self._flow(function)
            meets = flow.meets[at]
            inside = _between(flow.ways, flow.ways[at], meets)
            region = self._region(function, inside, meets, jump=at)
            found = self._found[key] = region
        return found

    def guard(self, function: int, at: int) -> int:
        """Return the instruction that the program passes the guard to which is here; -1 if there is
        no guard. A guard is a jump with a branch that sends nothing, and fails or returns."""
        key = function, at
        target = self._guards.get(key)
        if target is None:
            target = self._guards[key] = self._passed(function, at)
        return target

    def _passed(self, function: int, at: int) -> int:
        code = self._functions[function].code
        if code[at][0] not in _TESTS:
            return -1
        to = int(code[at][1 + Op(code[at][0]).operands.index("j")])
        fails = self._leaves(function, at + 1, to, _FAILS)
        else_fails = self._leaves(function, to, len(code), _FAILS)
        if fails != else_fails:
            return to if fails else at + 1
        returns = not fails and self._leaves(function, at + 1, to, _LEAVES)
        return to if returns and not self._leaves(function, to, len(code), _LEAVES) else -1

    def _leaves(self, function: int, start: int, end: int, by: frozenset[Op]) -> bool:
        """Return whether the code from `start` on is short, sends nothing, and always leaves the
        function by these instructions before it comes to `end`."""
        code = self._functions[function].code
        limit = min(end, start + _MOST_IN_GUARD)
        inside = set[int]()
        due = [start]
        ends = False
        while due:
            index = due.pop()
            if index in inside:
                continue
            if not start <= index < limit:
                return False
            inside.add(index)
            op = self._ended_by(function, index)
            if op in SENDS or (op is Op.CALL and self._effects.instruction(function, index).sends):
                return False
            if op not in _ENDS:
                due += _ways(code, index)
            elif op not in by:
                return False
            ends |= op in _ENDS
        return ends

    def _ended_by(self, function: int, at: int) -> Op:
        """Return the operation here; that of a call which never returns is to raise."""
        op, *operands = self._functions[function].code[at]
        return Op.RAISE if op == Op.CALL and not self._returns(operands[1]) else Op(op)

    def _ways_from(self, function: int, at: int) -> list[int]:
        is_end = self._ended_by(function, at) in _ENDS
        return [] if is_end else [*_ways(self._functions[function].code, at)]

    def _returns(self, function: int) -> bool:
        """Return whether a function may return. One that calls itself is taken to."""
        returns = self._returning.get(function)
        if returns is None:
            self._returning[function] = True
            code = self._functions[function].code
            successors = [self._ways_from(function, index) for index in range(len(code))]
            targets = [handler.target for handler in self._functions[function].handlers]
            inside = _between(successors, [0, *targets], -1)
            returns = any(code[index][0] == Op.RETURN for index in inside)
            self._returning[function] = returns
        return returns

    def whole(self, number: int) -> Region:
        """Return the region of a whole function, for a call that is stepped over."""
        found = self._whole.get(number)
        if found is None:
            unknown = Region(-1, frozenset(), NO_EFFECTS, None, barrier=True)
            self._whole[number] = unknown  # of a function that calls itself
            found = self._region(number, _between(self._flow(number).ways, [0], -1), -1)
            self._whole[number] = found
        return found

    def _region(self, function: int, inside: set[int], meets: int, jump: int = 0) -> Region:
        code, flow = self._functions[function].code, self._flow(function)
        writes: set[int] = set()
        effect_set, sends, barrier = NO_EFFECTS, list[str](), False
        counted, repeats = True, _has_cycle(flow.ways, inside)
        for at in inside:
            op = code[at][0]
            writes.update(registers_of(code[at], "w"))
            effect_set = joined(effect_set, self._effects.instruction(function, at))
            barrier |= self._rules.is_barrier(function, at)
            if op in SENDS:
                sends.append(self._effects.called(function, at))
            elif op == Op.CALL:
                called = self.whole(code[at][2])
                counted &= called.sends is not None
                sends += called.sends or ()
            elif op in CARVES:
                sends.append(ANY_AGENT)
                counted = False
        # A call may send nobody knows how often though no send stands here: it names no agents.
        known = tuple(sends) if counted and not (sends and repeats) else None
        scopes = flow.scopes[meets] if meets >= 0 else -1
        taken = {handler for at in {*inside, jump} for handler in flow.handlers.get(at, ())}
        writes.update(each.reason for each in taken if each is not None and each.reason >= 0)
        return Region(meets, frozenset(writes), effect_set, known, barrier, scopes, None in taken)

    def _flow(self, function: int) -> "_Flow":
        found = self._flows.get(function)
        if found is None:
            handlers = self._rules.raised.handlers_of(function)
            found = self._flows[function] = _flow(self._functions[function], handlers)
        return found


class _Flow(NamedTuple):
    """How control goes through one function. For each instruction, `ways` are those that may
    follow, -1 for the end of the function; `meets` is its immediate post-dominator; and `scopes` is
    how many budget scopes of the call are open before it, -1 if it is never reached. `handlers` are
    those that take the errors of an instruction that may raise; None: an error leaves the
    function."""

    ways: list[list[int]]
    meets: list[int]
    scopes: list[int]
    handlers: Mapping[int, tuple[Handler | None, ...]]


def _flow(function: Function, handlers: Mapping[int, tuple[Handler | None, ...]]) -> _Flow:
    ways = [[*_ways(function.code, at)] for at in range(len(function.code))]
    for at, taken in handlers.items():
        after = [] if function.code[at][0] == Op.RAISE else ways[at]
        ways[at] = [*after, *(-1 if each is None else each.target for each in taken)]
    return _Flow(ways, _post_dominators(ways), _open_scopes(function), handlers)


def _ways(code: Sequence[RawInstruction], at: int) -> Iterator[int]:
    """Yield the instructions that may follow if nothing is caught; -1 is the end of the
    function."""
    instruction = code[at]
    op = instruction[0]
    if op in _ENDS:
        yield -1
    elif op == Op.JUMP:
        yield instruction[1]
    else:
        yield at + 1
        if op in _FORKS:
            yield instruction[1 + Op(op).operands.index("j")]


def _quiet_from(function: Function) -> int:
    """Return from which instruction on there are only such as call nothing and lead to none that
    does. It is one way through the code: a walk from each instruction would make long programs
    slow."""
    start = 0
    for at, instruction in enumerate(function.code):
        if instruction[0] in _CALLS or any(-1 < way < start for way in _ways(function.code, at)):
            start = at + 1
    if any(handler.end >= start > handler.target for handler in function.handlers):
        return len(function.code)
    return start


def _open_scopes(function: Function) -> list[int]:
    """Return how many budget scopes of the call are open before each instruction. A handler says
    how many are left."""
    found = [-1] * len(function.code)
    due = [(handler.target, handler.scopes) for handler in function.handlers]
    due.append((0, 0))
    while due:
        at, count = due.pop()
        if at == -1 or found[at] >= 0:
            continue
        found[at] = max(count, 0)
        op = function.code[at][0]
        after = found[at] + (op == Op.BUDGET_ENTER) - (op == Op.BUDGET_EXIT)
        due += [(way, after) for way in _ways(function.code, at)]
    return found


def _between(ways: Sequence[Sequence[int]], starts: Sequence[int], meets: int) -> set[int]:
    inside: set[int] = set()
    due = [at for at in starts if at not in (meets, -1)]
    while due:
        at = due.pop()
        if at not in inside:
            inside.add(at)
            due += [way for way in ways[at] if way not in (meets, -1)]
    return inside


def _has_cycle(ways: Sequence[Sequence[int]], inside: set[int]) -> bool:
    """Return whether the code has a loop: every loop has a jump back."""
    return any(way <= at and way in inside for at in inside for way in ways[at])


def _post_dominators(ways: Sequence[Sequence[int]]) -> list[int]:
    """Return for each instruction its immediate post-dominator, -1 for the end, and also -1 if it
    never reaches the end. The chains over the reversed graph are intersected until nothing
    changes."""
    end = len(ways)
    before: list[list[int]] = [[] for _ in range(end + 1)]
    after = [[end if way == -1 else way for way in each] for each in ways]
    for at, each in enumerate(after):
        for way in each:
            before[way].append(at)
    order = _numbered(before, end)
    known = [-1] * (end + 1)
    known[end] = end
    changed = True
    while changed:
        changed = False
        for at in sorted((at for at in range(end) if order[at] >= 0), key=lambda a: -order[a]):
            met = _meeting([way for way in after[at] if known[way] >= 0], known, order)
            if known[at] != met:
                known[at] = met
                changed = True
    return [-1 if met == end else met for met in known[:end]]


def _meeting(ways: Sequence[int], known: list[int], order: list[int]) -> int:
    met, *rest = ways
    for way in rest:
        one, other = met, way
        while one != other:
            if order[one] < order[other]:
                one = known[one]
            else:
                other = known[other]
        met = one
    return met


def _numbered(before: list[list[int]], end: int) -> list[int]:
    """Return the postorder numbers of a walk from the end, which has the greatest; -1 if never
    reached."""
    order = [-1] * (end + 1)
    seen = {end}
    stack: list[tuple[int, Iterator[int]]] = [(end, iter(before[end]))]
    count = 0
    while stack:
        at, rest = stack[-1]
        way = next((way for way in rest if way not in seen), None)
        if way is None:
            stack.pop()
            order[at] = count
            count += 1
        else:
            seen.add(way)
            stack.append((way, iter(before[way])))
    return order


# What the lookahead knows of a module: effects, regions, and which agents may be called
# speculatively.


class ModuleFacts:
    """The facts of one module, computed once and shared by all its runs."""

    def __init__(self, program: LoadedModule) -> None:
        self.effects = ModuleEffects(program.module)
        self.rules = SpeculationRules(program.module, self.effects)
        self.regions = Regions(self.effects, self.rules, program.module)
        self._functions = program.module.functions

    def has_guards(self) -> bool:
        """Return whether a failure or an early return of the author decides what follows."""
        return any(
            self.rules.is_guard(op, operands) or self.regions.guard(number, index) >= 0
            for number, function in enumerate(self._functions)
            for index, (op, *operands) in enumerate(function.code)
        )

    def effects_of(self, asked: str, path: str = "") -> EffectSet:
        """Return the effect set of a request: of an agent, or of a host function with its
        capabilities and, if it is known, the path of its file."""
        name, at, rights = asked.rpartition("@")
        if not at:
            return self.effects.agent(asked)
        return on_path(self.effects.host(name, int(rights)), path)


def has_guards(module: Module) -> bool:
    """Return whether a program has a guard: a failure or an early return that its author wrote."""
    return facts_of(load(module)).has_guards()


def facts_of(program: LoadedModule) -> ModuleFacts:
    """Return the facts of a module. The last few are cached."""
    return KNOWN_FACTS.of(program)


KNOWN_FACTS = RecentCache(ModuleFacts)
