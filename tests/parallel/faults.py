"""Faults planted in what looks ahead: each must show as a difference."""

from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeAlias

from campaigns.parallel.comparing import differences
from campaigns.parallel.running import Seen, compiled, run
from campaigns.parallel.trees import text_of
from campaigns.parallel.writing import program

from vegakit.ids import ANY_AGENT
from vegakit.lang import EffectSet, Module, Op, SpeculationRules
from vegakit.program.core import Core
from vegakit.program.paid_repeats import PaidRepeats
from vegakit.program.processes import Incarnations
from vegakit.program.speculation import Speculation
from vegakit.program.wallets import Wallets
from vegakit.vm import (
    Print,
    SpeculativeCallUsed,
    Vm,
    effect_instructions as answering,
    effect_instructions as asking,
    lookahead,
    machine,
    module_facts as regions,
    text_of as value_text,
)
from vegakit.vm.lookahead import Lookahead
from vegakit.vm.module_facts import COLD, KNOWN_FACTS, ModuleFacts
from vegakit.vm.task_machine import TaskMachine

__all__ = ["FAULTS", "MOST", "first_found", "planted"]

MOST = 600
WINDOW = 64

Put: TypeAlias = Callable[[Any, Any, Any], None]
"""Sets an attribute, or an item of a dict, until the fault is taken out."""


@contextmanager
def planted(name: str) -> Generator[None]:
    before: list[Callable[[], None]] = []

    def put(on: Any, at: Any, value: Any) -> None:
        is_table = isinstance(on, MutableMapping)
        old = on[at] if is_table else on.__dict__[at]
        before.append(lambda: on.__setitem__(at, old) if is_table else setattr(on, at, old))
        on.__setitem__(at, value) if is_table else setattr(on, at, value)

    KNOWN_FACTS.clear()
    FAULTS[name](put)
    try:
        yield
    finally:
        for take_out in reversed(before):
            take_out()
        KNOWN_FACTS.clear()


def first_found(name: str, most: int = MOST) -> int | None:
    """How many programs it takes."""
    for seed in range(most):
        module, sequential = _in_order(seed)
        with planted(name):
            try:
                parallel = run(module, seed, WINDOW)
            except RuntimeError:  # everybody waits, for ever
                return seed + 1
        if differences(sequential, parallel) and _holds(module, seed, sequential):
            return seed + 1
    return None


def _holds(module: Module, seed: int, sequential: Seen) -> bool:
    """Without the fault."""
    return not differences(sequential, run(module, seed, WINDOW))


@lru_cache(maxsize=MOST)
def _in_order(seed: int) -> tuple[Module, Seen]:
    module = compiled(text_of(program(seed)))
    assert module is not None
    return module, run(module, seed, 0)


# Which calls begin early


def _no_conflicts(put: Put) -> None:
    put(lookahead, "conflict", lambda one, other: False)


def _writers_early(put: Put) -> None:
    put(SpeculationRules, "why_in_order", lambda self, agent: agent == ANY_AGENT)


def _writes_early(put: Put) -> None:
    put(lookahead, "only_reads", lambda effects: bool(effects.reads or effects.writes))


def _out_of_line(put: Put) -> None:
    put(Lookahead, "_in_line", lambda self, agent, to: True)


def _memory_stays(put: Put) -> None:
    """What was said in vain is remembered."""

    def given_up(self: Speculation, path: str, critical_path: Any, ticket: str, word: str) -> None:
        if (speculative := self._core.state.speculative.get(word)) is not None:
            speculative.remembers = False
        real(self, path, critical_path, ticket, word)

    real = Speculation.on_given_up
    put(Speculation, "on_given_up", given_up)


def _no_versions(put: Put) -> None:
    """A call is known by its place alone, not by what was written or heard before it."""
    for module in (asking, lookahead):
        put(module, "version_of", lambda *_: "")


def _heard_after_stays(put: Put) -> None:
    _no_versions(put)
    put(
        machine,
        "_unused",
        lambda vm, speculative, seen: (t for t in speculative if t not in seen),
    )


def _guarded_early(put: Put) -> None:
    """Or whose tools ask others."""

    def why(self: SpeculationRules, agent: str) -> bool:
        return agent == ANY_AGENT or self._effects.agent(agent).class_ == "irrevocable"

    put(SpeculationRules, "why_in_order", why)


def _older_forgotten(put: Put) -> None:
    put(ModuleFacts, "effects_of", lambda self, asked: EffectSet())


def _no_money_beside(put: Put) -> None:
    put(Speculation, "admits", lambda self, *_: 0)


# Ways that are not known


def _region(**changed: Any) -> Callable[[Put], None]:
    def plant(put: Put) -> None:
        _no_versions(put)
        real = regions.Regions.of
        put(regions.Regions, "of", lambda self, *at: real(self, *at)._replace(**changed))

    return plant


def _missing_is_empty(put: Put) -> None:
    def force(vm: Lookahead, task: Any, frame: Any, operands: Any) -> None:
        real(vm, task, frame, operands)
        if type(frame.registers[operands[0]]) is lookahead.UnknownValue:
            frame.registers[operands[0]] = ""

    real: Any = _OPS[COLD + Op.FORCE]
    put(_OPS, COLD + Op.FORCE, force)


# What becomes of them


def _not_compared(put: Put) -> None:
    def use_speculative(self: TaskMachine, task: Any, ticket: str, request: Any) -> bool:
        asked = self.state.asked[ticket]
        asked.speculative, asked.digest = False, ""
        del self.speculative[ticket]
        self.request(SpeculativeCallUsed(ticket, request))
        return True

    put(TaskMachine, "use_speculative", use_speculative)


def _not_given_up(put: Put) -> None:
    put(machine, "cancel_unreachable", lambda vm, task: None)


def _met_in_spite_of_a_conflict(put: Put) -> None:
    _no_versions(put)

    def met(self: Lookahead, ticket: str, effect_set: Any, older: Any = None) -> str:
        self.seen.add(ticket)
        return ticket

    put(Lookahead, "_met", met)


def _repeats_at_once(put: Put) -> None:
    put(PaidRepeats, "_is_next", lambda self, process, message_id: True)


def _waste_not_told(put: Put) -> None:
    put(Speculation, "waste", lambda self, *_: None)


def _waste_shows(put: Put) -> None:
    """In what is used and what remains."""
    put(Wallets, "waste", lambda self, *_: None)


def _told_as_refused(put: Put) -> None:
    """What did not fit beside older calls is refused for good."""

    def on_answer(self: Speculation, *given: Any) -> bool:
        real(self, *given)
        return False

    real = Speculation.on_answer
    put(Speculation, "on_answer", on_answer)
    put(Speculation, "admits", lambda self, *_: 0)


def _errors_at_once(put: Put) -> None:
    """The first error in time, not in the program, is raised."""

    def failed(vm: Vm, ticket: str, error: str, reason: str) -> bool:
        asked = vm.state.asked.get(ticket)
        if asked is not None and asked.speculative:
            for other in [*vm.pending.get(asked.task, {})]:
                if not vm.state.asked[other].speculative:
                    real(vm, other, error, reason)
        return real(vm, ticket, error, reason)

    real = answering.failed
    put(machine, "failed", failed)


def _prints_early(put: Put) -> None:
    def prints(vm: Lookahead, task: Any, frame: Any, operands: Any) -> None:
        value = frame.registers[operands[0]]
        if type(value) is not lookahead.UnknownValue:
            vm.main.request(Print(vm.ticket(frame, operands[1]), value_text(value)))

    put(_OPS, COLD + Op.PRINT, prints)


def _crashes_early(put: Put) -> None:
    put(Incarnations, "_void", lambda self, path, process, message_ids: False)


def _never_early(put: Put) -> None:
    """A process that is gone answers speculative calls with its end."""
    put(Core, "speculative", lambda self, message: None)


_OPS: Any = lookahead.OPS

FAULTS: dict[str, Callable[[Put], None]] = {
    "conflicts are not looked at": _no_conflicts,
    "agents that write begin speculatively": _writers_early,
    "host calls that write begin speculatively": _writes_early,
    "agents with a breaker or a rate begin speculatively": _guarded_early,
    "messages to a process overtake each other": _out_of_line,
    "what was said in vain is remembered": _memory_stays,
    "what was heard after it is kept, versions off": _heard_after_stays,
    "older calls under way are forgotten": _older_forgotten,
    "money for older calls is not kept": _no_money_beside,
    "paid repeats are taken out of turn": _repeats_at_once,
    "what a region touches is forgotten, versions off": _region(effect_set=EffectSet()),
    "what a region writes stays known, versions off": _region(writes=frozenset()),
    "missing answers are taken for empty": _missing_is_empty,
    "what is wanted is not compared": _not_compared,
    "nothing is given up in a handler": _not_given_up,
    "kept in spite of a conflict, versions off": _met_in_spite_of_a_conflict,
    "waste is not told": _waste_not_told,
    "waste shows in the budget": _waste_shows,
    "refusals of speculative calls are answers": _told_as_refused,
    "the first error in time is raised": _errors_at_once,
    "prints go out speculatively": _prints_early,
    "speculative calls crash their process": _crashes_early,
    "speculative calls end with their process": _never_early,
}
