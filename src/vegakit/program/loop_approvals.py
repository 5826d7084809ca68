"""The approval before an expensive loop (pure).

A loop whose list is only known when the program runs is quoted again before its first round. Above
the `confirm` of the innermost session that has one, a person is asked.
"""

from typing import TYPE_CHECKING, Any, cast

from vegakit.effects import AskHuman
from vegakit.money import Money, format_money
from vegakit.policy import InterruptKind
from vegakit.program.bodies import AgentBody, FiberRun, StandInBody, model_terms
from vegakit.program.core import Core
from vegakit.program.wallets import Wallets

if TYPE_CHECKING:
    from vegakit.lang import AgentSpec
    from vegakit.vm import CallHost

_EXPIRES_MS = 24 * 60 * 60 * 1000
_NO_BOUND = 2**62
_ARGUMENTS = 2
_ROW = [str, int, int, int, bool, int]


class LoopConfirmation:
    """Asks a person before a loop that may cost much."""

    def __init__(self, core: Core, wallets: Wallets) -> None:
        self._core = core
        self._wallets = wallets

    def question(self, run: FiberRun, request: "CallHost") -> AskHuman | None:
        """Return the question for a person, or None when the loop may begin without one."""
        session = run.session(request.scope)
        most = self._most(session)
        items, rows = _loop_arguments(request)
        if most is None or not items:
            return None
        worst = len(items) * self._round(run, rows, _longest(items))
        room = self._wallets.room(run.path, session)
        worst = worst if room is None else min(worst, room)
        if worst <= most:
            return None
        cost = (
            "an amount without bound"
            if worst >= _NO_BOUND
            else f"{format_money(Money(worst))} at most"
        )
        many = f"{len(items):,} round{'s' * (len(items) != 1)}"
        question = (
            f"A loop of {many} may cost {cost}, more than {format_money(Money(most))}. Begin it?"
        )
        return AskHuman(InterruptKind.CONFIRMATION, question, self._core.now + _EXPIRES_MS)

    def _most(self, key: str) -> int | None:
        """Return the `confirm` limit of the innermost session that has one."""
        sessions = self._core.state.sessions
        limits = (sessions[around].confirm for around in self._wallets.around(key))
        return next((most for most in limits if most is not None), None)

    def _round(self, run: FiberRun, rows: list[Any], longest: int) -> int:
        """Bound the cost of one round. A send to an unknown agent has no bound."""
        specs = {spec.name: spec for spec in run.body.module.agents}
        costs = (self._cost(run, row, longest, specs.get(row[0])) for row in rows)
        return sum(int(min(cost, _NO_BOUND)) for cost in costs)

    def _cost(
        self, run: FiberRun, row: list[Any], longest: int, spec: "AgentSpec | None"
    ) -> int | float:
        from vegakit.lang import cost_of_round

        process = None if spec is None else run.body.stateless.get(spec.name)
        body = None if process is None else self._core.code.get(process.body)
        if isinstance(body, StandInBody):
            times, budget = row[1], row[5]
            return times * (body.budget if budget < 0 else budget)
        if spec is None or not isinstance(body, AgentBody):
            return _NO_BOUND
        terms = model_terms(body)
        return cost_of_round(row, longest, spec, lambda _: terms, body.rule.tools)


def _loop_arguments(request: "CallHost") -> tuple[list[Any], list[Any]]:
    """Return the items and the sends of one round. Bytecode may hold anything: arguments that
    cannot be read count as a loop without sends."""
    if len(request.args) != _ARGUMENTS or not all(isinstance(arg, list) for arg in request.args):
        return [], []
    items, rows = cast("tuple[list[Any], list[Any]]", request.args)
    return (items, rows) if all(map(_is_row, rows)) else ([], [])


def _is_row(row: object) -> bool:
    parts = cast("list[object]", row) if isinstance(row, list) else []
    return [type(part) for part in parts] == _ROW


def _longest(items: list[Any]) -> int:
    """Return the size of the longest item in bytes, or -1 if some item is not a text. The text of a
    pair is its second part."""
    texts: list[Any] = [item[-1] if isinstance(item, list) and item else item for item in items]
    sizes = [len(text.encode()) if isinstance(text, str) else -1 for text in texts]
    return -1 if -1 in sizes else max(sizes, default=0)
