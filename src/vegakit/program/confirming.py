"""Loops quoted again when their list is there: rounds by what one of them may cost at most.

What the loop may cost is at most what is left of the nearest budget. Above the innermost `confirm`
around it a person is asked; a loop inside none of them begins.
"""

from typing import Any, cast

from vegakit.effects import AskHuman
from vegakit.lang import AgentSpec
from vegakit.money import Money, show
from vegakit.policy import InterruptKind
from vegakit.program.bodies import AgentBody
from vegakit.program.core import Core
from vegakit.program.purses import Purses
from vegakit.program.running import Run
from vegakit.vm import CallHost

__all__ = ["Confirming"]

_EXPIRES_MS = 24 * 60 * 60 * 1000
_NO_BOUND = 2**62
_ARGUMENTS = 2
_ROW = [str, int, int, int, bool, int]


class Confirming:
    def __init__(self, core: Core, purses: Purses) -> None:
        self._core = core
        self._purses = purses

    def question(self, run: Run, want: CallHost) -> AskHuman | None:
        """None when it may begin unasked."""
        session = run.session(want.scope)
        most = self._most(session)
        items, rows = _told(want)
        if most is None or not items:
            return None
        worst = len(items) * self._round(run, rows, _longest(items))
        room = self._purses.room(run.path, session)
        worst = worst if room is None else min(worst, room)
        if worst <= most:
            return None
        cost = "an amount without bound" if worst >= _NO_BOUND else f"{show(Money(worst))} at most"
        many = f"{len(items):,} round{'s' * (len(items) != 1)}"
        question = f"A loop of {many} may cost {cost}, more than {show(Money(most))}. Begin it?"
        return AskHuman(InterruptKind.CONFIRMATION, question, self._core.now + _EXPIRES_MS)

    def _most(self, key: str) -> int | None:
        """What the innermost session says that says something."""
        sessions = self._core.state.sessions
        said = (sessions[around].confirm for around in self._purses.around(key))
        return next((most for most in said if most is not None), None)

    def _round(self, run: Run, rows: list[Any], longest: int) -> int:
        """Of agents that are not there nothing is known."""
        specs = {spec.name: spec for spec in run.body.module.agents}
        costs = (self._cost(run, row, longest, specs.get(row[0])) for row in rows)
        return sum(int(min(cost, _NO_BOUND)) for cost in costs)

    def _cost(self, run: Run, row: list[Any], longest: int, spec: AgentSpec | None) -> int | float:
        from vegakit.lang import ModelTerms, cost_of_round

        process = None if spec is None else run.body.stateless.get(spec.name)
        body = None if process is None else self._core.code.get(process.body)
        if spec is None or not isinstance(body, AgentBody):
            return _NO_BOUND
        rule = body.rule
        terms = None
        if body.price is not None:
            most = rule.settings.max_tokens
            attempts = body.retry.max_attempts
            terms = ModelTerms(body.price, rule.context_tokens, most, body.count, attempts)
        return cost_of_round(row, longest, spec, lambda _: terms, rule.tools)


def _told(want: CallHost) -> tuple[list[Any], list[Any]]:
    """Bytecode may say anything; what cannot be read is a loop without sends."""
    if len(want.args) != _ARGUMENTS or not all(isinstance(arg, list) for arg in want.args):
        return [], []
    items, rows = cast("tuple[list[Any], list[Any]]", want.args)
    return (items, rows) if all(map(_is_row, rows)) else ([], [])


def _is_row(row: object) -> bool:
    parts = cast("list[object]", row) if isinstance(row, list) else []
    return [type(part) for part in parts] == _ROW


def _longest(items: list[Any]) -> int:
    """In bytes; -1 where not all of them are texts. Of pairs it is the second."""
    texts: list[Any] = [item[-1] if isinstance(item, list) and item else item for item in items]
    sizes = [len(text.encode()) if isinstance(text, str) else -1 for text in texts]
    return -1 if -1 in sizes else max(sizes, default=0)
