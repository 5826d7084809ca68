"""One call of a rollout: what is held and paid for its comparison, the other path in the shadow,
and whether both answered the same.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial, reduce
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

from msgspec import structs

from vegakit.concurrency import cancel_all
from vegakit.contracts import CallCosts, CandidateUnavailable, PathCost, RolloutRoute
from vegakit.errors import (
    BudgetExceeded,
    Cancelled,
    CircuitOpen,
    ContractViolated,
    RateLimited,
    StoreError,
    Timeout,
    UserError,
    VegaError,
)
from vegakit.money import Money
from vegakit.records import digest128
from vegakit.sdk import Runtime
from vegakit.telemetry import Redactor
from vegakit.vesper.comparisons import Comparison, plain
from vegakit.vesper.evidence import RolloutEvidence
from vegakit.vesper.paths import CallInputs, ExecutionPath, PathAnswer, PerformedCall, ToolLog
from vegakit.vesper.quotes import VerificationWallet

MAX_COMPARISONS = 64
"""Comparisons in flight. Without room for one more a call is not compared."""
_WAIT_S = 1.0
_LONGEST_REASON = 200
_LONGEST_NAME = 100
_LONGEST_KEPT = 1_000
_REDACTOR = Redactor()
"""Hides what is of the format of a key."""

_log = logging.getLogger(__name__)


def is_breach(answer: object) -> bool:
    """Return whether a path gave no answer since that would break its contract."""
    return isinstance(answer, ContractViolated)


def is_outage(error: object) -> bool:
    """Return whether a provider could not be asked: it was away, or had no room. An answer that is
    refused, cut off or of the wrong type is an answer."""
    if isinstance(error, RateLimited | CircuitOpen):
        return True
    return isinstance(error, VegaError) and error.is_outage


def says_nothing(error: object) -> bool:
    """Return whether a failure is no evidence about the path that failed."""
    return is_outage(error) or isinstance(error, BudgetExceeded | Cancelled | StoreError)


async def came_of(run: Awaitable[PathAnswer], timeout_s: float | None) -> PathAnswer | Exception:
    """Return the answer of a path, or what it failed with. One that hangs fails; so does one that
    cancels itself or ends the process: in the shadow it would take the caller along."""
    limit, task = asyncio.timeout(timeout_s), asyncio.current_task()
    try:
        async with limit:
            return await run
    except (asyncio.CancelledError, SystemExit) as error:
        if task is not None and task.cancelling():
            raise
        return RuntimeError(f"it raised {type(error).__name__}, which is no answer")
    except Exception as error:  # noqa: BLE001  (user code may raise anything)
        if limit.expired():
            return Timeout(f"it had no answer after {timeout_s:g} s; see RolloutRule(timeout_s=…)")
        return error


def checked_name(name: object) -> str:
    """Return the name of a rollout, if it can be one: people type it, and stores keep it."""
    if isinstance(name, str) and _is_word(name) and "/" not in name:
        return name
    raise UserError(
        "a rollout is named by a word without / and control characters, of at most "
        f"{_LONGEST_NAME} characters, like 'review'; got {name!r:.120}"
    )


def _is_word(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_NAME and text.isprintable()


class InputClasses:
    """Names the class of a call's inputs, as the user's function does."""

    def __init__(self, name: str, function: Callable[..., str] | None) -> None:
        self._name, self._function = name, function

    @property
    def has_several(self) -> bool:
        """Return whether inputs are of classes at all."""
        return self._function is not None

    def __call__(self, inputs: CallInputs) -> str | None:
        """Return the class; None if the function failed, which must not fail the caller."""
        if self._function is None:
            return ""
        try:
            word = cast("object", self._function(*inputs.args))
        except Exception as error:  # noqa: BLE001  (user code may raise anything)
            return self._told(f"raised {type(error).__name__}: {error}")
        if isinstance(word, str) and (not word or _is_word(word)):
            return word
        wanted = f"a text of at most {_LONGEST_NAME} characters, without control characters"
        return self._told(f"returned {word!r:.60}, and not {wanted}")

    def _told(self, problem: str) -> None:
        _log.warning(
            "rollout %s: the reference answers, and nothing is compared, since input_class %s",
            self._name,
            problem,
        )


_EQUALS: "WeakKeyDictionary[Runtime, Counter[str]]" = WeakKeyDictionary()
"""How many calls of a run were equal: of the run, since a rollout may be opened in it again."""


def kept_id(runtime: Runtime, run: str, name: str, inputs: CallInputs) -> str:
    """Return the id of a call that may be made again after a kill: it is named by its run, its
    inputs and which of its equals it is; that of a program by its place there."""
    digest = inputs.digest()
    if inputs.send is not None:
        return f"{run}.{digest[:16]}.{digest128(inputs.send.key)[:16]}"
    equals = _EQUALS.setdefault(runtime, Counter())
    what = f"{name}/{digest}"
    equals[what] += 1
    return f"{run}.{digest[:16]}.{equals[what]}"


class ComparedCall(NamedTuple):
    """A call, the money that is held for its comparison, and what that has cost so far."""

    id: str
    is_kept: bool
    inputs: CallInputs
    route: RolloutRoute
    evidence: RolloutEvidence
    held: Money
    costs: list[CallCosts]
    before: CallInputs
    """The inputs as they were before any path was run."""

    @property
    def timeout_s(self) -> float:
        """Return how long a path may take."""
        return self.evidence.machine.rule.timeout_s

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
    """Return an outage, or another reason, as what a rollout is told."""
    return CandidateUnavailable(str(error)[:_LONGEST_REASON])


def _told(came: PathAnswer | Exception | None) -> str:
    """Return an answer as people read it, with what was asked of the world for it."""
    if came is None:
        return ""
    if isinstance(came, Exception):
        return f"{type(came).__name__}: {came}"
    asked = "".join(f"; called {name} with {given}" for name, given in came.effects)
    return f"{plain(came.output)}{asked}"


def _told_inputs(inputs: CallInputs) -> str:
    named = [f"{name}={value!r}" for name, value in inputs.options.items()]
    only = inputs.args[0] if len(inputs.args) == 1 and not named else None
    return only if isinstance(only, str) else ", ".join([*map(repr, inputs.args), *named])


class ComparisonFlights:
    """The comparisons that are in flight while callers go on, and room for them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[None]] = set()
        self._room, self._is_full = asyncio.Semaphore(MAX_COMPARISONS), False

    async def begin(
        self, comparison: Coroutine[Any, Any, None], on_end: Callable[[], object]
    ) -> bool:
        """Make a comparison if there is room. Where there is none a caller waits for a moment, so
        that comparisons keep up with calls that come fast; of a candidate that hangs, only the
        first one does."""
        try:
            has_room = await self._has_room()
        except BaseException:
            comparison.close()
            raise
        if not has_room:
            comparison.close()
            return False
        self.add(comparison).add_done_callback(partial(self._leave, on_end))
        return True

    async def _has_room(self) -> bool:
        if self._room.locked() and self._is_full:
            return False
        try:
            async with asyncio.timeout(_WAIT_S):
                await self._room.acquire()
        except TimeoutError:
            self._is_full = True
            return False
        return True

    def _leave(self, on_end: Callable[[], object], _task: "asyncio.Task[None]") -> None:
        on_end()
        self._room.release()
        self._is_full = False

    def add(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Do what takes no room."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("rollout %s: a comparison failed: %s", self._name, error, exc_info=error)

    async def settle(self) -> None:
        """Wait until none is in flight."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def cancel(self) -> None:
        """End all of them."""
        await cancel_all([*self._tasks])


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
        with self._paying(call):
            # A copy for each run: the next one is given what this one was.
            return await came_of(path.shadow(call.before.copied(), calls), call.timeout_s)

    def _paying(self, call: ComparedCall) -> AbstractContextManager[None]:
        """Let comparisons be paid by their wallet; in a program by the part of the send, so that
        its quote holds."""
        return self._wallet.entered() if call.inputs.send is None else nullcontext()

    async def keep(self, call: ComparedCall, *came: PathAnswer | Exception | None) -> None:
        """Keep what reference and candidate said, for people."""
        inputs, one, two = (
            _REDACTOR.redact(text)[:_LONGEST_KEPT]
            for text in (_told_inputs(call.inputs), *map(_told, came))
        )
        await call.evidence.keep_difference(inputs, one, two)

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
            # The caller has an answer, and must not lose it because two of them do not compare. An
            # answer that the comparison was not made for is a difference, or it would never count.
            if says_nothing(error):
                return None
            _log.exception("rollout %s: %s could not compare", self._name, self._compare.name)
            return False
        if call.inputs.send is None:
            call.costs.append(CallCosts(judge=verdict.cost))
        return verdict.is_same
