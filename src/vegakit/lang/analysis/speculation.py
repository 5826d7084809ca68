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
from vegakit.lang.codegen.bytecode import AgentSpec, Module, Op
from vegakit.lang.library import ASKS_PEOPLE, CONFIRM, LIBRARY

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

PAUSES = frozenset({"process::sleep", "process::yield", CONFIRM}).union(
    name for name in LIBRARY if name.startswith(ASKS_PEOPLE)
)
"""Library functions at which it ends as well: they are there to take time, or a person decides
there whether the program continues."""

BARRIERS = frozenset({Op.BUDGET_CHECK, Op.EXIT, Op.LINK, Op.MONITOR, Op.PAR_BEGIN, Op.RACE_BEGIN})
"""Instructions that it cannot step over in a branch that is not decided yet: what follows may
depend on them in a way that it cannot see."""

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
    `stops` are those at which the lookahead ends, `bars` those that cannot be stepped over,
    `carves` those that set money aside, `uncounted` those that send nobody knows how often, and
    `unnamed` those that send to processes.
    A function that calls itself cannot be stepped over either."""

    def __init__(self, module: Module, effects: ModuleEffects) -> None:
        self._module = module
        self._effects = effects

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
        if self.bars.intersection(self._effects.tools_of(spec)):
            return f"a tool of {spec.name} pauses, looks at the budget or calls itself"
        return ""

    def is_barrier(self, function: int, at: int) -> bool:
        """Return whether an instruction cannot be stepped over, with all that it calls."""
        op, *operands = self._module.functions[function].code[at]
        if op == Op.CALL:
            return int(operands[1]) in self.bars
        return op in BARRIERS or self._pauses(op, operands)

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
