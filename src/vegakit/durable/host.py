"""The host of a program on Temporal: model and tool calls as activities, alarms as timers, and
questions to people held in the workflow.

    start ──▶ activity on the queue of models or tools ── outcome ──▶ next()
    hold  ──▶ from now on what is started stays in the program's state, and the next run starts it

What a worker that died was doing is not done again: the next attempt looks at the ledger, and the
program hears that the outcome is unknown. Steps are made only when all else has run, which is when
`wait_condition` looks. So the outcomes of one wake-up come together, and a cancel never meets a
result that has arrived and is not yet told: Temporal would drop it, and what it cost.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, CancelledError

from vegakit.durable.messages import Call, Performed, Work
from vegakit.durable.payloads import why_too_large
from vegakit.durable.questions import HeldQuestions
from vegakit.effects import (
    AskHuman,
    CallModel,
    CallTool,
    Effect,
    Request,
    SetTimer,
    changed,
)
from vegakit.errors import LimitReached
from vegakit.events import Answered, Cancelled, EffectOutcome, HostEvent, OutcomeArrived, Refused
from vegakit.ids import EffectKey, pid_of
from vegakit.policy import Interrupts
from vegakit.program import Program
from vegakit.runtime import Account, LocalHost, Perform

__all__ = ["TemporalHost", "WorkflowClock", "queue_of"]

_LONGEST_CALL = timedelta(days=1)
_LONGEST_LOOK = timedelta(seconds=30)
_AGAIN = RetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    maximum_interval=timedelta(seconds=10),
    maximum_attempts=10,
)
_AT_ONCE = 50
_SHORTER = "shorten the conversation (history= of the agent), or hand over files by name"
_CALLS: dict[type[Request], Call] = {CallModel: Call.MODEL, CallTool: Call.TOOL}


def queue_of(queue: str, call: Call) -> str:
    """Where workers of their own look for models and tools: neither keeps the other waiting."""
    return queue if call is Call.AFTERMATH else f"{queue}-{call.name.lower()}s"


class WorkflowClock:
    """Implements `ports.Clock`, the same on every replay."""

    def now(self) -> int:
        return workflow.time_ns() // 1_000_000

    async def wait_until(self, at_ms: int) -> None:
        await asyncio.sleep(max(0, at_ms - self.now()) / 1000)


class TemporalHost(LocalHost):
    """Implements `ports.Host`, inside a workflow."""

    def __init__(
        self,
        state: Program,
        queue: str,
        heartbeat_ms: int,
        *,
        apart: bool = True,
        interrupts: Interrupts | None = None,
    ) -> None:
        """Calls that are not `apart` may begin at once on the worker that steps the program, which
        is a fifth of what Temporal costs."""
        performers: dict[type[Request], Perform] = {
            CallModel: self._call,
            CallTool: self._call,
            AskHuman: self._ask_person,
            SetTimer: self._wait,
        }
        super().__init__(performers, WorkflowClock())
        self.questions = HeldQuestions(self._clock, interrupts)
        self._state = state
        self._queues = {call: queue_of(queue, call) if apart else queue for call in Call}
        self._heartbeat = timedelta(milliseconds=heartbeat_ms)
        self.holding = False
        self._at_once = 0

    @property
    def has_news(self) -> bool:
        return bool(self._arrived) or self._broken is not None

    @property
    def is_idle(self) -> bool:
        """Nothing is under way but timers, which the next run sets again, and questions, which it
        finds as they stand."""
        waits = (SetTimer, AskHuman)
        return all(isinstance(effect.request, waits) for effect in self._effects.values())

    def start(self, effect: Effect, *, speculative: bool = False) -> None:
        if not self.holding:
            super().start(effect, speculative=speculative)

    def cancel(self, key: EffectKey, *, late: bool = False) -> None:
        flight = self._state.flights.get(key)
        if self.holding and flight is not None and key not in self._effects:
            self.tell(OutcomeArrived(key, flight.effect.path, Cancelled()))
        super().cancel(key)

    def hold(self) -> None:
        self.holding = True

    async def next(self) -> Sequence[HostEvent]:
        await workflow.wait_condition(lambda: self.has_news)
        return await super().next()

    async def _wait(self, effect: Effect, account: Account) -> EffectOutcome:
        assert isinstance(effect.request, SetTimer)
        if effect.request.due_ms <= self._clock.now():
            await self._let_others_in()
        await self._clock.wait_until(effect.request.due_ms)
        return Answered(None)

    async def _let_others_in(self) -> None:
        """A program that computes for long does so in many tasks: Temporal believes that one which
        takes seconds hangs."""
        self._at_once += 1
        if self._at_once % _AT_ONCE == 0:
            await asyncio.sleep(0.001)

    async def _ask_person(self, effect: Effect, account: Account) -> EffectOutcome:
        path, place = self._state.flights[effect.key].path, effect.path
        process = pid_of(place.program, path, place.lives[-1].generation)
        return await self.questions.oversight.ask_person(effect, process)

    async def _call(self, effect: Effect, account: Account) -> EffectOutcome:
        path = self._state.flights[effect.key].path
        body = self._state.processes[path].spec.body
        written = (one for one in self._state.authored.values() if body.startswith(one.prefix))
        work = Work(effect, body, path, authored=next(written, None))
        if too_large := why_too_large("the request", work, _SHORTER):
            return Refused(LimitReached.__name__, too_large)
        performed = await self._perform(work)
        if performed.digest != effect.digest:
            self._broken = changed(effect)  # whoever waits for the outcome is told this instead
        return performed.outcome

    async def _perform(self, work: Work) -> Performed:
        call = _CALLS[type(work.effect.request)]
        try:
            return await workflow.execute_activity(
                call,
                work,
                result_type=Performed,
                task_queue=self._queues[call],
                activity_id=work.effect.key,
                summary=str(work.effect.path),
                start_to_close_timeout=_LONGEST_CALL,
                heartbeat_timeout=self._heartbeat,
                retry_policy=_AGAIN,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
        except ActivityError as failed:
            cancelled = isinstance(failed.cause, CancelledError)
        return await workflow.execute_activity(
            Call.AFTERMATH,
            Work(work.effect, work.body, work.path, cancelled),
            result_type=Performed,
            start_to_close_timeout=_LONGEST_LOOK,
        )
