"""One call of a rollout: what is held and paid for its comparison, the other path in the shadow,
and whether both answered the same.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from typing import NamedTuple

from msgspec import structs

from vegakit.contracts import CallCosts, CandidateUnavailable, PathCost, RolloutRoute
from vegakit.errors import (
    BudgetExceeded,
    Cancelled,
    CircuitOpen,
    RateLimited,
    StoreError,
    VegaError,
)
from vegakit.money import Money
from vegakit.sdk import Runtime
from vegakit.vesper.comparisons import Comparison
from vegakit.vesper.evidence import RolloutEvidence
from vegakit.vesper.paths import CallInputs, ExecutionPath, PathAnswer, PerformedCall, ToolLog
from vegakit.vesper.quotes import VerificationWallet

COMPARISON_S = 600.0
"""A path that takes longer than this in the shadow is given up, without evidence."""
_LONGEST_REASON = 200

_log = logging.getLogger(__name__)


def is_outage(error: object) -> bool:
    """Return whether a provider could not be asked: it was away, or had no room. An answer that is
    refused, cut off or of the wrong type is an answer."""
    if isinstance(error, RateLimited | CircuitOpen):
        return True
    return isinstance(error, VegaError) and error.is_outage


def says_nothing(error: object) -> bool:
    """Return whether a failure is no evidence about the path that failed."""
    return is_outage(error) or isinstance(error, BudgetExceeded | Cancelled | StoreError)


class ComparedCall(NamedTuple):
    """A call, the money that is held for its comparison, and what that has cost so far."""

    id: str
    is_kept: bool
    inputs: CallInputs
    route: RolloutRoute
    evidence: RolloutEvidence
    held: Money
    costs: list[CallCosts]

    def paid(self, answer: PathAnswer | Exception, path: str) -> None:
        """Count what an answer of a path has cost."""
        # What a send of a program costs is known to its part alone.
        if isinstance(answer, PathAnswer) and self.inputs.send is None:
            self.costs.append(structs.replace(CallCosts(), **{path: PathCost(1, answer.nanos)}))

    def by_reference(self, performed: Iterable[PerformedCall] = ()) -> "ComparedCall":
        """Return the call as the reference answers it, which finds these tool calls done."""
        return self._replace(route=self.route.by_reference(performed))

    def log(self) -> ToolLog:
        """Return a log for the path that answers, in which the tool calls that are done are
        known."""
        return ToolLog(known=[PerformedCall(*each) for each in self.route.performed])

    def total(self) -> CallCosts:
        """Return all that was paid."""
        return reduce(CallCosts.plus, self.costs, CallCosts())


class CheckedInput(NamedTuple):
    """Whether both paths agree on an input, None if nobody knows, and what they answered; a failure
    is an answer, too."""

    agrees: bool | None
    reference: object
    candidate: object

    @classmethod
    def of(cls, agrees: bool | None, *came: PathAnswer | Exception) -> "CheckedInput":
        """Return it for what came of the reference and of the candidate."""
        one, two = (each if isinstance(each, Exception) else each.output for each in came)
        return cls(agrees, one, two)


def unavailable(error: object) -> CandidateUnavailable:
    """Return an outage as what a rollout is told."""
    return CandidateUnavailable(str(error)[:_LONGEST_REASON])


class ShadowRuns:
    """Runs paths in the shadow and compares answers, paid by the wallet of the rollout."""

    def __init__(
        self, runtime: Runtime, name: str, compare: Comparison, wallet: VerificationWallet
    ) -> None:
        self._runtime, self._name, self._compare, self._wallet = runtime, name, compare, wallet

    async def run(
        self, path: ExecutionPath, call: ComparedCall, performed: PathAnswer | None = None
    ) -> PathAnswer | Exception:
        """Run a path in the shadow; return what it raises, which is an answer, too."""
        calls = () if performed is None else performed.calls
        limit = asyncio.timeout(COMPARISON_S)
        try:
            with self._paying(call):
                async with limit:
                    return await path.shadow(call.inputs, calls)
        except Exception as error:  # noqa: BLE001  (user code may raise anything)
            if limit.expired():
                return Cancelled(f"it took longer than {COMPARISON_S:g} s in the shadow")
            return error

    def _paying(self, call: ComparedCall) -> AbstractContextManager[None]:
        """Let comparisons be paid by their wallet; in a program by the part of the send, so that
        its quote holds."""
        return self._wallet.entered() if call.inputs.send is None else nullcontext()

    async def is_same(
        self, call: ComparedCall, reference: PathAnswer, other: PathAnswer | Exception
    ) -> bool | None:
        """Return whether both answered and asked the same of the world; None if nobody knows."""
        if says_nothing(other):
            return None
        if isinstance(other, Exception) or reference.effects != other.effects:
            return False
        try:
            with self._paying(call):
                verdict = await self._compare.verdict(self._runtime, reference.output, other.output)
        except Exception as error:  # noqa: BLE001  (user code may raise anything)
            # The caller has an answer, and must not lose it because two of them do not compare.
            if not says_nothing(error):
                _log.exception("rollout %s: %s could not compare", self._name, self._compare.name)
            return None
        if call.inputs.send is None:
            call.costs.append(CallCosts(judge=verdict.cost))
        return verdict.is_same
