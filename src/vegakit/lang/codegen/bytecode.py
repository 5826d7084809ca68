"""Bytecode: the table of instructions, and a module of functions and declarations as the compiler
makes and the machine runs it (pure).

The enum, the verifier, the disassembler and the reference page are made from the one table of
instructions; the machine in `vm` is tested to know every row. An instruction is a list, its number
first:

| operand | is                                                             |
|---------|----------------------------------------------------------------|
| `w`     | a register that is written                                     |
| `r`     | a register that is read                                        |
| `o`     | a register that is read, or -1 for none                        |
| `rs`    | a list of registers that are read                              |
| `ws`    | a list of registers that are written                           |
| `k`     | the index of a constant                                        |
| `j`     | the index of an instruction of the same function               |
| `f`     | the index of a function                                        |
| `t`     | the index of a type, or -1 for none                            |
| `n`     | a small whole number                                           |
| `s`     | the index of a site of the same function: where an effect is   |
"""

from enum import IntEnum
from typing import Any, Self

from msgspec import Struct

from vegakit.lang.syntax.lexer import money_text
from vegakit.lang.types import Type


class Op(IntEnum):
    """An instruction: its number, its operands and its meaning."""

    operands: tuple[str, ...]
    meaning: str

    def __new__(cls, number: int, operands: str, meaning: str) -> Self:
        row = int.__new__(cls, number)
        row._value_ = number
        row.operands = tuple(operands.split())
        row.meaning = meaning
        return row

    CONST = 0x01, "w k", "w = constant k"
    MOVE = 0x02, "w r", "w = r"
    AGENT = 0x03, "w k", "w = the agent named k, stateless: each send its own process"
    # arithmetic: int with int, float with float, money and duration by their rules, + joins
    ADD = 0x10, "w r r", "w = a + b; joins strings, lists and maps; overflow raises"
    SUB = 0x11, "w r r", "w = a - b"
    MUL = 0x12, "w r r", "w = a * b"
    DIV = 0x13, "w r r", "w = a / b; ints truncate toward zero"
    MOD = 0x14, "w r r", "w = a % b; the sign of the left side"
    NEG = 0x15, "w r", "w = -a"
    EQ = 0x20, "w r r", "w = a == b"
    NE = 0x21, "w r r", "w = a != b"
    LT = 0x22, "w r r", "w = a < b"
    LE = 0x23, "w r r", "w = a <= b"
    IN = 0x24, "w r r", "w = a in b: list item, map key or part of a string"
    NOT = 0x25, "w r", "w = not a"
    JUMP = 0x30, "j", "go to j"
    JUMP_IF = 0x31, "r j", "go to j if r is true"
    JUMP_IF_NOT = 0x32, "r j", "go to j if r is false"
    JUMP_IF_NULL = 0x33, "r j", "go to j if r is null"
    LIST = 0x40, "w rs", "w = [rs]"
    MAP = 0x41, "w rs", "w = {key: value, …} from pairs of registers"
    RECORD = 0x42, "w t rs", "w = a record of type t, its fields in order"
    FIELD = 0x43, "w r k", "w = r.k"
    INDEX = 0x44, "w r r", "w = a[b]; outside raises"
    WITH_FIELD = 0x45, "w r k r", "w = a copy of r whose field k is the last"
    WITH_INDEX = 0x46, "w r r r", "w = a copy of a whose item b is the last"
    TEXT = 0x47, "w rs", "w = the registers as text, joined"
    CAST = 0x48, "w r t", "w = r if it fits type t, else raises ContractViolated"
    ITEMS = 0x50, "w r", "w = the list that a loop walks: items, or keys of a map"
    PAIRS = 0x51, "w r", "w = [[index, item], …], or [[key, value], …] of a map"
    NEXT = 0x52, "w r w j", "count the last w up; w = item of list r, or go to j at the end"
    ROUND = 0x53, "w o", "count w up; past the limit o raise LimitReached"
    CALL = 0x60, "w f rs s", "w = function f of rs"
    RETURN = 0x61, "r", "give r to the caller; what this call spawned and r does not hold ends"
    LIBRARY = 0x62, "w k rs", "w = the pure library function named k of rs"
    HOST = 0x63, "w k rs s", "w = the library function or tool named k, done by the host"
    PRINT = 0x64, "r s", "print r"
    RAISE = 0x65, "k r", "raise the error named k with the reason r"
    ISSUE_SEND = (
        0x70,
        "w r r t o o s",
        "w = future of the answer of a to b, of type t, with timeout and budget",
    )
    FORCE = 0x71, "w r", "w = what future r comes to; waits"
    SPAWN_SUPERVISED = (
        0x90,
        "w r o o o k s",
        "w = future of a process of agent r, with wallet, name, supervisor and rules k",
    )
    LINK = 0x91, "r r", "tie two processes: the abnormal end of one ends the other"
    MONITOR = (
        0x92,
        "w r j s",
        "when process r is gone, run what follows with w its reason; go on at j",
    )
    EXIT = 0x93, "r", "end this process with reason r"
    SEND_STREAM = 0xA0, "w r r t o o s", "w = stream of the answer of a to b"
    STREAM_NEXT = 0xA1, "w r", "w = the next chunk of stream r"
    STREAM_DONE = 0xA2, "w r", "w = is stream r at its end; waits until that is known"
    BUDGET_ENTER = 0xB0, "r k s", "open a scope of r money with settings k, inside the present one"
    BUDGET_EXIT = 0xB1, "", "close the innermost scope"
    BUDGET_CHECK = 0xB2, "w n s", "w = of the innermost scope: 0 remaining, 1 used, 2 limit"
    BUDGET_RESERVE = 0xB3, "w r", "w = r, the money that the next send may take; negative raises"
    PAR_BEGIN = 0xC0, "w", "w = a new group of tasks"
    PAR_SPAWN = (
        0xC1,
        "r j ws",
        "a task of group r begins at j with a copy of the registers; ws come back",
    )
    PAR_JOIN = 0xC2, "r", "wait for group r; the earliest error in program order wins"
    TASK_END = 0xC3, "", "this task is done"
    RACE_BEGIN = 0xC4, "w", "w = a new group of tasks of which the first that wins ends the others"
    RACE_WON = 0xC5, "s", "this task is done, and wins its race unless another has"


# What the compiler makes and the machine runs: a module of functions and declarations.
#
# All of it is JSON, so a module is stored, sent and hashed as it is. A site says where an effect
# stands: its ordinal in the function and the registers that count the loops around it. A handler
# covers the instructions from `start` up to `end`; the first row that fits is taken, so inner rows
# come first.


class CallSite(Struct, frozen=True):
    """The place of an effect: its ordinal in the function, the registers that count the loops
    around it, and where it stands in the source."""

    ordinal: int
    loops: tuple[int, ...]
    line: int
    column: int


class Handler(Struct, frozen=True):
    """A `catch` as the machine sees it. `kinds` is empty for all that can be caught. `scopes` is
    how many budget scopes of this call stay open."""

    start: int
    end: int
    target: int
    kinds: tuple[str, ...]
    reason: int
    scopes: int


class Rights(Struct, frozen=True, omit_defaults=True):
    """The capabilities of a function or tool. None for `paths`, `commands` or `hosts` means that
    the source does not narrow them."""

    capabilities: tuple[str, ...] = ()
    paths: tuple[str, ...] | None = None
    commands: tuple[str, ...] | None = None
    hosts: tuple[str, ...] | None = None


class Function(Struct, frozen=True):
    """`lines[i]` is the line of instruction i. The first registers are the parameters; `names` are
    theirs, or none at all."""

    name: str
    file: str
    params: tuple[Type, ...]
    result: Type
    registers: int
    code: tuple[tuple[Any, ...], ...]
    lines: tuple[int, ...]
    sites: tuple[CallSite, ...]
    handlers: tuple[Handler, ...]
    rights: int
    names: tuple[str, ...] = ()


class CompiledTool(Struct, frozen=True, omit_defaults=True):
    """A tool that the program declares. `function` is the index of its body."""

    name: str
    function: int
    description: str
    params: tuple[tuple[str, Type], ...]
    result: Type
    rights: int
    idempotent: bool = False


class AgentSpec(Struct, frozen=True, omit_defaults=True):
    """An agent is held as it is written, with None for what is not written. Blocks are maps of
    their settings, names as strings, money in whole units of `Money`, durations in milliseconds.
    `fallbacks` are the models that are asked in turn when the one before is not available."""

    name: str
    model: str
    system: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    max_steps: int | None = None
    budget: int | None = None
    period: str = ""
    on_exceed: str = ""
    memory: bool = False
    priority: str = ""
    timeout_ms: int | None = None
    retry: dict[str, Any] | None = None
    circuit_breaker: dict[str, Any] | None = None
    rate_limit: dict[str, Any] | None = None
    tools: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    yaml: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    effort: str = ""

    @property
    def allowance(self) -> str | None:
        """Return its budget as it is written: `$5` or `$5/day`."""
        return None if self.budget is None else money_text(self.budget, self.period)

    @property
    def models(self) -> tuple[str, ...]:
        """Return all models that it may ask, in order."""
        return self.model, *self.fallbacks


class SupervisorSpec(Struct, frozen=True, omit_defaults=True):
    """A supervisor as declared, with defaults filled in; `backoff` is as in a retry."""

    name: str
    strategy: str
    max_restarts: int
    window_ms: int
    children: tuple[str, ...]
    backoff: list[Any] | None = None


class Module(Struct, frozen=True):
    """A compiled program. `main` is the index of the function to run. `files` are the sources'
    names and digests; `sends` is how many sends it may make, each counted once, None where nothing
    bounds them."""

    name: str
    main: int
    functions: tuple[Function, ...]
    constants: tuple[Any, ...]
    types: tuple[Type, ...]
    rights: tuple[Rights, ...]
    agents: tuple[AgentSpec, ...]
    tools: tuple[CompiledTool, ...]
    supervisors: tuple[SupervisorSpec, ...]
    mcp: tuple[str, ...]
    files: tuple[tuple[str, str], ...]
    sends: int | None = None
