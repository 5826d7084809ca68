"""The rules of speculation that are known before a program runs (pure).

A call may begin before the program comes to it. The lookahead of the machine asks these rules while
the program runs, and the dataflow graph asks them to tell beforehand what will run side by side. So
the two cannot disagree about what an agent, a function or an instruction allows. What the rules
cannot know is whether the budget has room, which only the run decides.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from vegakit.lang.analysis.effects import ANY_AGENT, EffectClass, EffectSet, ModuleEffects
from vegakit.lang.analysis.raised_errors import RaisedErrors
from vegakit.lang.codegen.bytecode import AgentSpec, Handler, Module, Op
from vegakit.lang.library import ASKS_PEOPLE, CONFIRM, LIBRARY
from vegakit.lang.types import ChoiceOf, is_literal

SENDS = frozenset({Op.ISSUE_SEND, Op.SEND_STREAM})
STOPS = frozenset(
    {
        Op.LINK,
        Op.MONITOR,
        Op.EXIT,
        Op.BUDGET_CHECK,
        Op.BUDGET_RESERVE,
        Op.PAR_BEGIN,
        Op.PAR_SPAWN,
        Op.PAR_JOIN,
        Op.TASK_END,
        Op.RACE_BEGIN,
        Op.RACE_WON,
    }
)
"""Instructions at which the lookahead ends: nothing behind begins before the program comes to
them."""

QUESTIONS = frozenset(name for name in LIBRARY if name.startswith(ASKS_PEOPLE)) | {CONFIRM}
"""Library functions that ask a person."""

PAUSES = frozenset({"process::sleep", "process::yield"}) | QUESTIONS
"""Library functions at which it ends as well: they are there to take time, or a person decides
there whether the program continues."""

BARRIERS = frozenset({Op.BUDGET_CHECK, Op.EXIT, Op.LINK, Op.MONITOR, Op.PAR_BEGIN, Op.RACE_BEGIN})
"""Instructions that it cannot step over in a branch that is not decided yet: what follows may
depend on them in a way that it cannot see."""

_MAY_FAIL = SENDS | {Op.CALL, Op.FORCE, Op.HOST, Op.STREAM_DONE, Op.STREAM_NEXT}
"""Instructions by which a call that fails raises its error."""

CARVES = frozenset({Op.SPAWN_SUPERVISED, Op.BUDGET_ENTER})
"""Instructions that set money aside, of an amount that is not known before the program comes to
them. A send behind them cannot begin, because nobody knows what it would have to leave."""


def only_reads(effects: EffectSet) -> bool:
    """Return whether a host call may be speculative: it acts, and nobody can tell that it did."""
    return effects.class_ is EffectClass.REVOCABLE


def changes(effects: EffectSet) -> bool:
    """Return whether a later read may see a difference."""
    return bool(
        effects.writes or effects.posts or effects.commands or effects.servers or effects.unknown
    )


class SpeculationRules:
    """The rules of one module. Functions are told by their numbers, each with all that it calls:
    `stops` are those at which the lookahead ends, `bars` those that cannot be stepped over, `asks`
    those with a question to a person, `carves` those that set money aside, `uncounted` those that
    send nobody knows how often, and `unnamed` those that send to processes.
    A function that calls itself cannot be stepped over either."""

    def __init__(self, module: Module, effects: ModuleEffects) -> None:
        self._module = module
        self._effects = effects
        self._covered: dict[int, tuple[tuple[int, int, bool], ...]] = {}

    def why_in_order(self, agent: str) -> str:
        """Return why a send to the agent may not be speculative, empty if it may. Its answer must
        not depend on anything that earlier calls leave behind except its own memory: no breaker
        that failures open, no rate limiter that calls exhaust, no restarts of processes that its
        tools ask. Nor may its tools read the budget, or pause."""
        return self._reasons.get(agent, "nobody knows which agent answers")

    @cached_property
    def _reasons(self) -> dict[str, str]:
        return {spec.name: self._reason(spec) for spec in self._module.agents}

    def _reason(self, spec: AgentSpec) -> str:
        effects = self._effects.agent(spec.name)
        if changes(effects):
            return f"it {told_changes(effects)}"
        if effects.prints or effects.asks_people:
            return "its tools ask or print"
        if spec.circuit_breaker is not None:
            return f"{spec.name} has a circuit breaker"
        if spec.rate_limit is not None:
            return f"{spec.name} has a rate limit"
        if others := effects.sends - {spec.name}:
            return f"a tool of {spec.name} asks {few(others)}"
        if self._unsteady.intersection(self._effects.tools_of(spec)):
            return f"a tool of {spec.name} pauses, looks at the budget or calls itself"
        return ""

    def is_barrier(self, function: int, at: int) -> bool:
        """Return whether an instruction cannot be stepped over, with all that it calls."""
        op, *operands = self._module.functions[function].code[at]
        if op in _MAY_FAIL and self.asks_on_failure(function, at):
            return True
        return int(operands[1]) in self.bars if op == Op.CALL else self._bars(op, operands)

    def is_guard(self, op: int, operands: Sequence[Any]) -> bool:
        """Return whether an instruction refuses every text but one, as `as "yes"` does."""
        if Op(op) is Op.CAST:
            return self.is_literal(operands[2])
        return op in SENDS and self.is_literal(operands[3])

    def is_literal(self, kind: int) -> bool:
        """Return whether exactly one text fits the type of this number, -1 for none."""
        return kind >= 0 and is_literal(self._module.types[kind])

    def literal(self, kind: int) -> str:
        """Return the one text that fits such a type."""
        of = self._module.types[kind]
        assert isinstance(of, ChoiceOf)
        return of.choices[0]

    def asks_on_failure(self, function: int, at: int, *, guards: bool = False) -> bool:
        """Return whether a call that fails here leads to a `catch` of this function that asks a
        person; with `guards`, whether a `fail` does, too."""
        return any(
            start <= at < end and (guards or not is_of_guards)
            for start, end, is_of_guards in self._asking_catches(function)
        )

    def _asking_catches(self, function: int) -> tuple[tuple[int, int, bool], ...]:
        """Return the instructions that are covered by a `catch` with a question in it, and whether
        only a `fail` leads there."""
        catches = self._covered.get(function)
        if catches is None:
            handlers = self._module.functions[function].handlers
            catches = self._covered[function] = tuple(
                (handler.start, handler.end, handler.kinds == ("Failed",))
                for handler in handlers
                if self._asks_in(function, handler)
            )
        return catches

    def _asks_in(self, function: int, handler: Handler) -> bool:
        """Return whether a `catch` asks a person."""
        code = self._module.functions[function].code
        over, *to = code[handler.end] if handler.end < len(code) else (Op.RETURN, -1)
        end = to[0] if over == Op.JUMP and handler.target < to[0] else len(code)
        return any(self._asks(function, index) for index in range(handler.target, end))

    def _asks(self, function: int, at: int) -> bool:
        """Return whether an instruction asks a person, by itself or by a call."""
        op, *operands = self._module.functions[function].code[at]
        if op == Op.CALL:
            return int(operands[1]) in self.asks
        is_question = self._is_question(op, operands)
        return is_question or self._effects.instruction(function, at).asks_people

    @cached_property
    def asks(self) -> frozenset[int]:
        """Return the functions that ask a person, or ask an agent with a tool that does."""
        own = {
            number
            for number, function in enumerate(self._module.functions)
            if any(self._is_question(op, of) for op, *of in function.code)
            or self._effects.function(number).asks_people
        }
        return self._and_callers(own)

    def _is_question(self, op: int, operands: Sequence[Any]) -> bool:
        return Op(op) is Op.HOST and self._module.constants[operands[1]] in QUESTIONS

    def _bars(self, op: int, operands: Sequence[Any]) -> bool:
        return op in BARRIERS or self._pauses(op, operands) or self.is_guard(op, operands)

    def _pauses(self, op: int, operands: Sequence[Any]) -> bool:
        return Op(op) is Op.HOST and self._module.constants[operands[1]] in PAUSES

    @cached_property
    def raised(self) -> RaisedErrors:
        """Return which errors the functions raise themselves, and where these go."""
        return RaisedErrors(self._module)

    @cached_property
    def failing(self) -> frozenset[int]:
        """Return the functions that a `fail` may leave."""
        every = range(len(self._module.functions))
        return frozenset(one for one in every if "Failed" in self.raised.leaving(one))

    @cached_property
    def stops(self) -> frozenset[int]:
        """Return the functions at which the lookahead ends."""
        return self.reaching(lambda op, of: op in STOPS or self._pauses(op, of))

    @cached_property
    def bars(self) -> frozenset[int]:
        """Return the functions that cannot be stepped over in a branch that is not decided yet."""
        return self._unsteady | self.reaching(self.is_guard)

    @cached_property
    def _unsteady(self) -> frozenset[int]:
        """Return the functions that pause, ask, look at the budget or call themselves."""
        own = self._with(lambda op, of: op in BARRIERS or self._pauses(op, of))
        return self._and_callers(
            own | {n for n in range(len(self._calls)) if n in self._called_by(n)}
        )

    @cached_property
    def carves(self) -> frozenset[int]:
        """Return the functions that set money aside, by a budget or by the wallet of a process."""
        return self.reaching(
            lambda op, of: (
                Op(op) is Op.BUDGET_ENTER or (Op(op) is Op.SPAWN_SUPERVISED and of[2] >= 0)
            )
        )

    @cached_property
    def uncounted(self) -> frozenset[int]:
        """Return the functions that send in a loop, so that nobody knows how often, or that may set
        money aside."""
        loops = self._with(lambda op, of: op in (Op.NEXT, Op.ROUND))
        sending = {one for one in loops if self._effects.function(one).sends}
        return self._and_callers(sending | self._with(lambda op, of: op in CARVES))

    @cached_property
    def unnamed(self) -> frozenset[int]:
        """Return the functions that send to processes, of which the machine does not know what
        they may touch."""
        return self._and_callers(
            {
                number
                for number, each in enumerate(self._module.functions)
                for at, (op, *_) in enumerate(each.code)
                if op in SENDS and self._effects.called(number, at) == ANY_AGENT
            }
        )

    def reaching(self, test: Callable[[int, Sequence[Any]], bool]) -> frozenset[int]:
        """Return the functions with such an instruction, or that call one of them."""
        return self._and_callers(self._with(test))

    def names(self, functions: frozenset[int]) -> frozenset[str]:
        """Return the full names of functions that are given by their numbers."""
        return frozenset(self._module.functions[one].name for one in functions)

    def _with(self, test: Callable[[int, Sequence[Any]], bool]) -> set[int]:
        functions = enumerate(self._module.functions)
        return {n for n, each in functions if any(test(op, of) for op, *of in each.code)}

    @cached_property
    def _calls(self) -> list[set[int]]:
        codes = [each.code for each in self._module.functions]
        return [{int(each[2]) for each in code if each[0] == Op.CALL} for code in codes]

    def _called_by(self, function: int) -> set[int]:
        found, due = set[int](), [function]
        while due:
            more = self._calls[due.pop()] - found
            found |= more
            due += more
        return found

    def _and_callers(self, functions: set[int]) -> frozenset[int]:
        every = range(len(self._calls))
        return frozenset(functions | {one for one in every if functions & self._called_by(one)})


_CHANGES = {
    "writes": "writes {}",
    "posts": "sends to {}",
    "commands": "runs {}",
    "servers": "uses {}",
    "unknown": "does {}",
}


def told_changes(effects: EffectSet) -> str:
    """Tell what a later read may see, for a reader."""
    found = {text: getattr(effects, name) for name, text in _CHANGES.items()}
    return ", ".join(text.format(few(names)) for text, names in found.items() if names)


def few(names: frozenset[str] | set[str]) -> str:
    """Return the first of some names, and whether there are more."""
    first, *rest = sorted(names)
    return f"{first} and more" if rest else first
