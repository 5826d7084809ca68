"""`rollout(…)`: a candidate beside what is trusted, for calls of production.

    async with Runtime() as rt, rollout(rt, "review", reference=old, candidate=new) as review:
        answer = await review("Review: …")

| mode             | the caller waits for   | in the background                              |
|------------------|------------------------|------------------------------------------------|
| `reference_only` | the reference          |                                                |
| `shadow`         | the reference          | the candidate in the shadow, compared          |
| `canary`, chosen | the candidate          | the reference in the shadow, compared          |
| `canary`, others | the reference          | the candidate in the shadow, compared          |
| `dual_verify`    | both, compared         |                                                |
| `direct_only`    | the candidate          | for 1 %: the reference in the shadow, compared |

A candidate that fails where it answers is counted as a difference, at once, and the reference
answers. A failure that is not its own (no money, no room, no connection) brings no evidence.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from secrets import token_hex
from types import TracebackType
from typing import Any, Generic, NamedTuple, ParamSpec, Self, TypeVar, cast, overload

from vegakit.concurrency import cancel_all
from vegakit.contracts import (
    Compared,
    PersonAction,
    PersonDecided,
    ReferenceRepeated,
    Rollout,
    RolloutMode,
    RolloutRoute,
    RolloutRule,
    StageChange,
)
from vegakit.errors import (
    BudgetExceeded,
    Cancelled,
    CircuitOpen,
    RateLimited,
    StoreError,
    UserError,
    WorldError,
)
from vegakit.host import Agent, ProgramSend
from vegakit.records import digest128
from vegakit.sdk import Runtime
from vegakit.vesper.comparisons import Comparison, Same, comparison_of, exact
from vegakit.vesper.evidence import RolloutEvidence, initial_rollout
from vegakit.vesper.paths import (
    CallInputs,
    ExecutionPath,
    PathAnswer,
    ToolLog,
    inputs_of,
    path_of,
    text_in_program,
)

P = ParamSpec("P")
T = TypeVar("T")

MAX_COMPARISONS = 64
"""Comparisons in flight; a call that would begin one more waits for one to end."""
COMPARISON_S = 600.0
"""A path that takes longer than this in the shadow is given up, without evidence."""
_NOT_ITS_FAULT = (BudgetExceeded, RateLimited, CircuitOpen, Cancelled, WorldError, StoreError)

_REFERENCE = RolloutRoute(RolloutMode.REFERENCE_ONLY)

_log = logging.getLogger(__name__)


class _Call(NamedTuple):
    id: str
    is_kept: bool
    inputs: CallInputs
    route: RolloutRoute
    evidence: RolloutEvidence


class RolledOut(Generic[P, T]):
    """A rollout that is called as its reference is. Of an agent one gets the output. Leaving its
    block waits for the comparisons that are in flight."""

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        reference: object,
        candidate: object,
        compare: Comparison,
        rule: RolloutRule,
        input_class: Callable[..., str] | None,
        on_change: Callable[[StageChange], object],
    ) -> None:
        if not name or "/" in name:
            raise UserError(f"a rollout is named by a word without /, like 'review'; got {name!r}")
        self.name, self._runtime, self._rule = name, runtime, rule
        self._reference: ExecutionPath = path_of(runtime, reference, "reference")
        self._candidate: ExecutionPath = path_of(runtime, candidate, "candidate")
        self._same, self._input_class, self._on_change = compare, input_class, on_change
        paths = [self._reference.version, self._candidate.version, compare.name]
        self.version = digest128(paths)[:12]
        self._evidence: dict[str, RolloutEvidence] = {}
        self._equals: Counter[str] = Counter()
        self._comparisons: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MAX_COMPARISONS)
        self._is_open = False

    async def __aenter__(self) -> Self:
        self._is_open = True
        await self._evidence_of("")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open = False
        if error is None:
            await self.settle()
        else:
            await cancel_all([*self._comparisons])

    async def settle(self) -> None:
        """Wait until the comparisons that are in flight are counted."""
        while self._comparisons:
            await asyncio.wait(self._comparisons)

    def status(self, input_class: str = "") -> Rollout:
        """Return the state of the rollout, as this process knows it."""
        if input_class not in self._evidence:
            raise UserError(
                f"rollout {self.name} has had no call of the input class {input_class!r} here; "
                f"there are: {', '.join(map(repr, self._evidence)) or 'none'}"
            )
        return self._evidence[input_class].machine

    async def decide(
        self, action: PersonAction, who: str, reason: str = "", input_class: str = ""
    ) -> StageChange | None:
        """Promote, demote or stop the rollout, whatever the evidence says."""
        evidence = await self._evidence_of(input_class)
        return await evidence.record(PersonDecided(action, who, reason))

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Answer a call as the stage of the rollout says."""
        call = await self._begin(CallInputs(args, kwargs))
        return cast("T", await self._answer(call))

    @property
    def tool_names(self) -> frozenset[str]:
        """Return the names of the tools that one of the paths has."""
        return self._reference.tool_names | self._candidate.tool_names

    async def answer(self, send: ProgramSend) -> str:
        """Answer a send of a program in place of its agent. The comparison belongs to the send: the
        program pays for it, and what it began has ended when it ends, so the answer waits."""
        call = await self._begin(inputs_of(send))
        return text_in_program(send, await self._answer(call))

    async def _begin(self, inputs: CallInputs) -> _Call:
        if not self._is_open:
            raise UserError(
                f"rollout {self.name} is not open; write: async with rollout(…) as {self.name}:"
            )
        digest = inputs.digest()
        word = "" if self._input_class is None else self._input_class(*inputs.args)
        evidence = await self._evidence_of(word)
        id_, is_kept = self._call_id(digest, inputs.send)
        if not await evidence.refresh():
            return _Call(id_, False, inputs, _REFERENCE, evidence)
        route = await evidence.open_call(id_, digest, is_kept=is_kept)
        return _Call(id_, is_kept, inputs, route, evidence)

    def _call_id(self, digest: str, send: ProgramSend | None) -> tuple[str, bool]:
        """Return the id of a call, and whether the same call may be made again after a kill: then
        it is named by its run, its inputs and which of its equals it is; that of a program by its
        place there."""
        run = self._runtime.journaled
        if run is None:
            return token_hex(8), False
        if send is not None:
            return f"{run.run.program}.{digest[:16]}.{digest128(send.key)[:16]}", True
        self._equals[digest] += 1
        return f"{run.run.program}.{digest[:16]}.{self._equals[digest]}", True

    async def _evidence_of(self, word: str) -> RolloutEvidence:
        if word not in self._evidence:
            initial = initial_rollout(self.name, self._rule, self.version, word)
            store, clock = self._runtime.store, self._runtime.clock
            evidence = RolloutEvidence(store, clock, initial, self._on_change)
            self._evidence[word] = evidence
            with suppress(StoreError):  # then the reference answers until the store does
                await evidence.recover()
                await evidence.refresh()
        return self._evidence[word]

    # Answers.

    async def _answer(self, call: _Call) -> object:
        if call.route.is_verified and call.route.is_compared:
            return await self._verify(call)
        if call.route.answers_by_candidate:
            return await self._answer_by_candidate(call)
        performed = await self._reference.perform(call.inputs, ToolLog())
        if call.route.runs_candidate or call.route.repeats_reference:
            await self._later(call, self._compare(call, performed))
        return performed.output

    async def _answer_by_candidate(self, call: _Call) -> object:
        log = ToolLog()
        try:
            answer = await self._candidate.perform(call.inputs, log)
        except _NOT_ITS_FAULT:
            await self._close(call)
        except Exception:  # noqa: BLE001  (whatever it raises, the caller has the reference's answer)
            # Counted before the fallback: the next call must not meet the same failure.
            await self._record(call, Compared(agrees=False))
        else:
            if call.route.is_compared:
                await self._later(call, self._compare_answer(call, answer))
            else:
                await self._close(call)
            return answer.output
        # What the candidate did before it failed is done: the reference goes on from there.
        fallback = await self._reference.perform(call.inputs, ToolLog(known=log.made))
        return fallback.output

    async def _verify(self, call: _Call) -> object:
        """Answer with the candidate where both agree. Paths without tools run side by side."""
        if self.tool_names:
            performed = await self._reference.perform(call.inputs, ToolLog())
            other = await self._attempt(self._candidate, call, performed)
        else:
            candidate = asyncio.ensure_future(self._attempt(self._candidate, call))
            try:
                performed = await self._reference.perform(call.inputs, ToolLog())
                other = await candidate
            finally:
                await cancel_all([candidate])
        again = await self._agrees_again(call, performed)
        agrees = self._is_same(performed, other)
        if agrees is None:
            await self._close(call)
        else:
            await self._record(call, Compared(agrees, again, is_answer=agrees))
        return other.output if agrees and isinstance(other, PathAnswer) else performed.output

    # Comparisons.

    async def _compare(self, call: _Call, performed: PathAnswer) -> None:
        """Compare what the reference performed with the candidate in the shadow."""
        again = await self._agrees_again(call, performed)
        if not call.route.runs_candidate:
            if again is None:
                await self._close(call)
            else:
                await self._record(call, ReferenceRepeated(again))
            return
        agrees = await self._agrees(self._candidate, call, performed)
        if agrees is None:
            await self._close(call)
        else:
            await self._record(call, Compared(agrees, again))

    async def _compare_answer(self, call: _Call, answer: PathAnswer) -> None:
        """Compare what the candidate performed with the reference in the shadow."""
        reference = await self._attempt(self._reference, call, answer)
        if isinstance(reference, Exception):  # it has failed itself, and says nothing
            await self._close(call)
            return
        again = await self._agrees_again(call, reference)
        agrees = self._is_same(reference, answer)
        if agrees is None:
            await self._close(call)
        else:
            await self._record(call, Compared(agrees, again, is_answer=True))

    async def _agrees_again(self, call: _Call, performed: PathAnswer) -> bool | None:
        """Return whether the reference agrees with itself, if the route asks for that."""
        if not call.route.repeats_reference:
            return None
        return await self._agrees(self._reference, call, performed)

    async def _agrees(self, path: ExecutionPath, call: _Call, performed: PathAnswer) -> bool | None:
        return self._is_same(performed, await self._attempt(path, call, performed))

    async def _attempt(
        self, path: ExecutionPath, call: _Call, performed: PathAnswer | None = None
    ) -> PathAnswer | Exception:
        """Run a path in the shadow; return what it raises, which is an answer, too."""
        calls = () if performed is None else performed.calls
        try:
            async with asyncio.timeout(COMPARISON_S):
                return await path.shadow(call.inputs, calls)
        except Exception as error:  # noqa: BLE001  (user code may raise anything)
            return error

    def _is_same(self, reference: PathAnswer, other: PathAnswer | Exception) -> bool | None:
        """Return whether both answered and asked the same of the world; None if nobody knows."""
        if isinstance(other, _NOT_ITS_FAULT):
            return None
        if isinstance(other, Exception) or reference.effects != other.effects:
            return False
        try:
            return self._same(reference.output, other.output)
        except Exception:  # noqa: BLE001  (user code may raise anything)
            # The caller has an answer, and must not lose it because two of them do not compare.
            _log.exception("rollout %s: %s could not compare", self.name, self._same.name)
            return None

    async def _record(self, call: _Call, event: Compared | ReferenceRepeated) -> None:
        try:
            id_ = call.id if call.is_kept else ""
            await call.evidence.record(event, id_, call.route)
        except StoreError as error:
            # This process has acted on it already; others hear nothing, and run the reference.
            _log.warning("rollout %s: evidence could not be kept: %s", self.name, error)

    async def _close(self, call: _Call) -> None:
        if call.is_kept:
            with suppress(StoreError):
                await call.evidence.close_call(call.id)

    async def _later(self, call: _Call, comparison: Coroutine[Any, Any, None]) -> None:
        """Make a comparison while the caller goes on; it waits where too many are in flight, and in
        a program always."""
        if call.inputs.send is not None:
            await comparison
            return
        try:
            await self._room.acquire()
        except BaseException:
            comparison.close()
            raise
        task = asyncio.create_task(comparison)
        self._comparisons.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._room.release()
        self._comparisons.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("rollout %s: a comparison failed: %s", self.name, error, exc_info=error)


@overload
def rollout(
    runtime: Runtime,
    name: str,
    *,
    reference: Agent[T],
    candidate: "Agent[T] | Callable[..., Awaitable[T]]",
    compare: Comparison | Same = ...,
    rule: RolloutRule = ...,
    input_class: Callable[..., str] | None = ...,
    on_change: Callable[[StageChange], object] = ...,
) -> RolledOut[..., T]: ...
@overload
def rollout(
    runtime: Runtime,
    name: str,
    *,
    reference: Callable[P, Awaitable[T]],
    candidate: "Agent[T] | Callable[..., Awaitable[T]]",
    compare: Comparison | Same = ...,
    rule: RolloutRule = ...,
    input_class: Callable[..., str] | None = ...,
    on_change: Callable[[StageChange], object] = ...,
) -> RolledOut[P, T]: ...
def rollout(
    runtime: Runtime,
    name: str,
    *,
    reference: object,
    candidate: object,
    compare: Comparison | Same | None = None,
    rule: RolloutRule | None = None,
    input_class: Callable[..., str] | None = None,
    on_change: Callable[[StageChange], object] = lambda _change: None,
) -> RolledOut[..., Any]:
    """Put a candidate under a rollout: an agent with another model or prompt, or an `async def`
    function without effects of its own. Evidence is kept in the runtime's store, by `name` and by
    what both paths and the comparison are; `input_class` names the class of a call's inputs, each
    of which is decided about apart; `on_change` is told every decision."""
    same = exact() if compare is None else comparison_of(compare)
    return RolledOut(
        runtime, name, reference, candidate, same, rule or RolloutRule(), input_class, on_change
    )
