"""The local host: effects as asyncio tasks, outcomes as events, and the driver that steps the
machine with them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Mapping, Sequence
from contextvars import Context, copy_context
from typing import Any, TypeAlias
from weakref import WeakSet

from vegakit.concurrency import TurnGate, run_to_completion
from vegakit.effects import (
    CallTool,
    Cancel,
    Commit,
    Effect,
    EffectRequest,
    RunCoroutine,
    SetTimer,
    Start,
    changed,
    place_of,
)
from vegakit.errors import StoreError, UserError, causes_of
from vegakit.events import (
    Crashed,
    EffectCancelled,
    EffectOutcome,
    HostEvent,
    OutcomeArrived,
    in_program_order,
)
from vegakit.host.gate import Account
from vegakit.host.journal import EffectRecorder, PastAnswers
from vegakit.host.recovery import Backlog
from vegakit.ids import EffectKey
from vegakit.money import Money
from vegakit.ports import Clock, Host, Journal
from vegakit.program import Action, Event, Machine

# The local host: effects as asyncio tasks, their outcomes as events.
#
#     start ──▶ recorded in the journal? ── yes ──▶ that outcome
#                         │ no
#                         ▼
#               a task, which nobody but this host owns ── outcome ──▶ journal ──▶ next()
#
# A journal that cannot be read, or a place where other code asked something else, ends the
# program: `next()` raises it, since neither an answer nor a failure of the effect would be true.
# One that cannot be written when the outcome is there is written later (`backlog`).
#
# It owns its tasks itself instead of using `asyncio.TaskGroup`, which would cancel the siblings of
# whatever fails. Whatever a task raises is an outcome like another, told to the program.
#
# Code that swallows its cancellation must not hold up the program or its end. After a few seconds
# it is told as cancelled and left behind, by name; what it still does nobody waits for.


EffectHandler: TypeAlias = Callable[[Effect, Account], Coroutine[Any, Any, EffectOutcome]]
"""The account says what was charged, however it ends."""

_LOG = logging.getLogger("vegakit")
_PATIENCE_S, _LEAST_PATIENCE_S = 5.0, 0.05
"""For the first task that does not end when it is cancelled; half of it for each one after, so that
a program full of them is closed within ten seconds."""
_MOST_IN_ORDER = 256
"""To put thousands in order takes longer than a turn of the loop may."""


class LocalHost:
    """Implements `ports.Host`."""

    def __init__(
        self,
        handlers: Mapping[type[EffectRequest], EffectHandler],
        clock: Clock,
        journal: Journal | None = None,
        backlog: Backlog | None = None,
        check: Callable[[Effect], None] | None = None,
        *,
        variables_of: Callable[[Effect], Context | None] = lambda _: None,
        on_recorded: Callable[[Effect, EffectOutcome], Awaitable[None]] | None = None,
        before_delivery: Callable[[Effect, EffectOutcome], Awaitable[None]] | None = None,
    ) -> None:
        """Take what carries out effects. `check` raises what ends the program instead of an effect
        that must not begin. An effect is carried out with a copy of the context variables that
        `variables_of` names, and of those of whoever starts it where it names none. `on_recorded`
        is told of an outcome when it is in the journal, before the program is; `before_delivery`
        makes ready what the program will ask of any outcome, and changes none."""
        self._variables_of = variables_of
        self._on_recorded = on_recorded
        self._before_delivery = before_delivery
        self._handlers = handlers
        self._clock = clock
        self._backlog = Backlog(clock) if backlog is None else backlog
        self._owns_backlog = backlog is None
        self._check = check
        self._recorder = EffectRecorder(journal, clock, self._backlog, self._sent)
        self._is_recorded = journal is not None
        self._tasks: dict[EffectKey, asyncio.Task[None]] = {}
        """The latest under each key; the one before it was cancelled, and lands first."""
        self._effects: dict[EffectKey, Effect] = {}
        self._running: dict[asyncio.Task[None], Effect] = {}
        self._writing: set[asyncio.Task[None]] = set()
        self._accounts: dict[EffectKey, Account] = {}
        self._late: WeakSet[asyncio.Task[None]] = WeakSet()
        """Those that were cancelled by a deadline."""
        self._patience_s = _PATIENCE_S
        self._arrived: list[HostEvent] = []
        self._put_back: Sequence[HostEvent] = ()
        self._waiter: asyncio.Future[None] | None = None
        self._listener: Callable[[], None] | None = None
        self._is_alone: Callable[[EffectKey], bool] = lambda _: False
        self._called = False
        self._variables = copy_context()
        self._broken: Exception | None = None

    @property
    def now(self) -> int:
        """The time of the clock."""
        return self._clock.now()

    @property
    def busy(self) -> int:
        """The number of effects that are being carried out."""
        return len(self._running)

    def on_ended(self) -> None:
        """Record that the process is ending, which cuts off the calls in flight."""
        self._recorder.is_ended = True

    @property
    def replayed(self) -> set[EffectKey]:
        """The effects whose outcomes were in the journal before this incarnation of the program."""
        return self._recorder.replayed

    def keep(self, past: PastAnswers) -> None:
        """Answer model calls by what another run was answered, as far as that goes."""
        self._recorder.past = past

    def expect(self, answered: Iterable[EffectKey], on_missing: Callable[[int], None]) -> None:
        """Send no new model call before the program has come to these calls of its earlier life."""
        self._recorder.missing = set(map(place_of, answered))
        self._recorder.on_missing = on_missing

    def start(self, effect: Effect, *, speculative: bool = False) -> None:
        """Start an effect; a speculative one is not claimed before it is committed."""
        key, run = effect.key, self._run_recorded if self._is_recorded else self._run
        variables = self._variables_of(effect)
        if variables is not None:
            variables = variables.copy()  # what one effect sets there is not for another
        loop, before = asyncio.get_running_loop(), self._tasks.get(key)
        if before is None:
            self._recorder.begin(effect, speculative=speculative)
            task = loop.create_task(run(effect), context=variables)
        else:
            after = self._run_after(before, effect, run, speculative)
            task = loop.create_task(after, context=variables)
        self._tasks[key] = task
        self._effects[key] = self._running[task] = effect

    def commit(self, key: EffectKey) -> None:
        """Commit a speculative effect: the program has come to it."""
        if not self._is_recorded:
            return
        if (effect := self._recorder.is_changed(key)) is not None:
            self._fail(changed(effect))
            return
        task = asyncio.ensure_future(self._commit(key))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    def cancel(self, key: EffectKey, *, late: bool = False) -> None:
        """Cancel an effect; its outcome still arrives. With `late`, its deadline has passed."""
        task = self._tasks.get(key)
        if task is None:
            self._recorder.forget(key)
        elif not task.cancelling():
            if late:
                self._late.add(task)
            task.cancel()
            giving_up = asyncio.get_running_loop().call_later(self._patience_s, self._abandon, task)

            def on_done(task: "asyncio.Task[None]") -> None:
                giving_up.cancel()
                self._sweep(task)

            task.add_done_callback(on_done)

    async def finished(self, keys: Iterable[EffectKey]) -> None:
        """Wait until these have ended, or do not let themselves be cancelled."""
        tasks = [self._tasks[key] for key in keys if key in self._tasks]
        if tasks:
            await run_to_completion(asyncio.wait(tasks, timeout=self._patience_s))

    async def next(self) -> Sequence[HostEvent]:
        """Wait for events, and return them in program order."""
        if not self._arrived and not self._put_back and self._broken is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.take()

    def listen(
        self,
        listener: Callable[[], None] | None,
        is_alone: Callable[[EffectKey], bool] = lambda _: False,
    ) -> None:
        """Call the listener once there is something to `take`, instead of waiting in `next`: a task
        that waits costs a future and a turn of the loop more for each answer. What stands alone is
        told at once: nothing is to be put in order with it."""
        self._listener, self._is_alone = listener, is_alone
        # The listener is called with the variables of who listens, not of the effect that ended,
        # whose doing it is not: so a process that is restarted stays in the program's trace.
        self._variables = copy_context()

    def take(self) -> Sequence[HostEvent]:
        """Return what has arrived, in program order. Of very much it is what arrived first, and the
        rest is for the next turn of the loop, as if it had arrived then."""
        self._called = False
        if self._broken is not None:
            raise self._broken
        if self._put_back:  # in order already: sorted again in each turn, many would take for ever
            kept, self._put_back = self._put_back, ()
            if self._arrived:
                self._wake()
            return kept
        events, self._arrived = self._arrived[:_MOST_IN_ORDER], self._arrived[_MOST_IN_ORDER:]
        if self._arrived:
            self._wake()
        return events if len(events) == 1 else in_program_order(events)

    def put_back(self, events: Sequence[HostEvent]) -> None:
        """Keep for the next turn of the loop what there was no time for in this one."""
        rest = self._put_back
        self._put_back = in_program_order((*events, *rest)) if rest else events
        self._wake()

    def tell(self, event: HostEvent) -> None:
        """Add an event, and wake whoever waits."""
        self._arrived.append(event)
        listener = None if self._called else self._listener
        if listener and isinstance(event, OutcomeArrived) and self._is_alone(event.key):
            self._variables.copy().run(listener)
        else:
            self._wake()

    async def aclose(self) -> None:
        """End everything that was started, unless it was left behind."""
        for key in list(self._tasks):
            self.cancel(key)
        # Each ends, or is left behind by `cancel` when its patience is over. Whatever goes wrong
        # there, closing ends: what waits for it has a ledger to settle and a journal to close.
        loop = asyncio.get_running_loop()
        ends = loop.time() + 2 * self._patience_s
        while (left := [t for t in self._running if not t.done()]) and loop.time() < ends:
            await asyncio.wait(left, timeout=_LEAST_PATIENCE_S)
        if self._writing:
            await asyncio.wait([*self._writing])
        await self._recorder.aclose()
        if self._owns_backlog:
            await self._backlog.aclose()

    async def _run_after(
        self,
        before: "asyncio.Task[None]",
        effect: Effect,
        run: Callable[[Effect], Coroutine[Any, Any, None]],
        speculative: bool,
    ) -> None:
        """Run when what was cancelled under the same key has ended, or is left behind. If this is
        cancelled meanwhile it waits all the same: its outcome must not come before the other's."""
        is_cancelled = False
        while before in self._running:
            try:
                await asyncio.wait([before], timeout=_LEAST_PATIENCE_S)
            except asyncio.CancelledError:
                is_cancelled = True
        if is_cancelled:
            self._end(effect, EffectCancelled())
            return
        self._recorder.begin(effect, speculative=speculative)
        await run(effect)

    async def _run_recorded(self, effect: Effect) -> None:
        """Claim an effect, carry it out, record the outcome, and only then tell it."""
        try:
            outcome = await self._recorder.claim(effect, self.now)
            if outcome is None:
                await self._recorder.wait_for_answered(effect)
                if self._check is not None:
                    self._check(effect)
                account = Account(record=self._recorder.record_of(effect))
                outcome = await self._outcome(effect, account)
                if not account.is_recorded:
                    await self._recorder.keep(effect, outcome)
            if self._on_recorded is not None:
                await self._on_recorded(effect, outcome)
            await self._make_ready(effect, outcome)
        except Exception as error:  # noqa: BLE001
            if self._forget(asyncio.current_task()):
                self._fail(error)
        else:
            self._end(effect, outcome)

    def _sent(self, held: Container[EffectKey]) -> "set[EffectKey] | None":
        """Return what is carried out, without timers; None while anything else goes on but what is
        held."""
        running = {
            effect.key: effect.request
            for effect in self._running.values()
            if effect.key not in held
        }
        if self._arrived or self._put_back or running.keys() - self._accounts.keys():
            return None
        return {key for key, request in running.items() if not isinstance(request, SetTimer)}

    async def _commit(self, key: EffectKey) -> None:
        try:
            await self._recorder.commit(key, self.now)
        except Exception as error:  # noqa: BLE001
            self._fail(error)

    async def _run(self, effect: Effect) -> None:
        outcome = await self._outcome(effect, Account())
        await self._make_ready(effect, outcome)
        self._end(effect, outcome)

    async def _make_ready(self, effect: Effect, outcome: EffectOutcome) -> None:
        """Prepare what the program will ask of an outcome. What is paid is told, also when it is
        cancelled meanwhile or nothing can be made ready: the rest is done later then, by whoever
        needs it. An error that left here would end the task before the outcome is told, and whoever
        waits for it would wait for ever."""
        if self._before_delivery is None:
            return
        try:
            await self._before_delivery(effect, outcome)
        except asyncio.CancelledError:
            pass
        except Exception:  # noqa: BLE001
            _LOG.exception("nothing was made ready for the outcome of %s", _name_of(effect))

    async def _outcome(self, effect: Effect, account: Account) -> EffectOutcome:
        self._accounts[effect.key] = account
        try:
            return await self._handlers[type(effect.request)](effect, account)
        except asyncio.CancelledError:
            return EffectCancelled(Money(account.charged), asyncio.current_task() in self._late)
        except Exception as error:  # noqa: BLE001
            if isinstance(error, StoreError):
                _LOG.error("%s failed: %s", _name_of(effect), error)
            cause = tuple(map(EffectKey, causes_of(error)))
            return Crashed(f"{type(error).__name__}: {error}", Money(account.charged), cause)

    def _sweep(self, task: "asyncio.Task[None]") -> None:
        """A task cancelled before it began never ran a line of its own, and one that was cancelled
        while it claimed its effect came to nothing."""
        effect = self._running.get(task)
        if effect is None:
            return
        if task in self._late and not self._recorder.is_speculative(effect.key):
            writing = asyncio.ensure_future(self._record_late(effect))
            self._writing.add(writing)
            writing.add_done_callback(self._writing.discard)
        self._end(effect, EffectCancelled(), task)

    async def _record_late(self, effect: Effect) -> None:
        try:
            if await self._recorder.claim(effect, self.now) is None:
                await self._recorder.keep(effect, EffectCancelled(late=True))
        except Exception as error:  # noqa: BLE001
            self._fail(error)

    def _abandon(self, task: "asyncio.Task[None]") -> None:
        """Give up an effect that was cancelled and goes on all the same. Who waits for its end is
        told that it has ended; what it has cost so far is known."""
        effect = self._running.get(task)
        if effect is None:
            return
        account = self._accounts.get(effect.key)
        _LOG.warning(
            "%s does not end although it was cancelled %.1f s ago, and is left behind; let "
            "`asyncio.CancelledError` pass there, or raise it again after cleaning up",
            _name_of(effect),
            self._patience_s,
        )
        self._patience_s = max(_LEAST_PATIENCE_S, self._patience_s / 2)
        self._end(effect, EffectCancelled(Money(account.charged if account else 0)), task)

    def _end(
        self, effect: Effect, outcome: EffectOutcome, task: "asyncio.Task[None] | None" = None
    ) -> None:
        if self._forget(task or asyncio.current_task()):
            self.tell(OutcomeArrived(effect.key, effect.path, outcome))

    def _forget(self, task: "asyncio.Task[Any] | None") -> bool:
        """Remove a task, and return False if it was left behind: what comes of it now is told to
        nobody."""
        effect = self._running.pop(task, None) if task is not None else None
        if effect is None or task is None:
            return False
        self._accounts.pop(effect.key, None)
        if task.cancelling():
            self._recorder.forget(effect.key)  # it is not wanted, so it will not be committed
        if self._tasks[effect.key] is task:
            del self._tasks[effect.key], self._effects[effect.key]
        return True

    def _fail(self, error: Exception) -> None:
        self._broken = self._broken or error
        self._wake()

    def _wake(self) -> None:
        """Wake the listener, though not at once: what else arrives in this turn of the loop is told
        with it, in order."""
        if self._listener is not None:
            if not self._called:
                self._called = True
                variables = self._variables.copy()
                asyncio.get_running_loop().call_soon(self._listener, context=variables)
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _name_of(effect: Effect) -> str:
    process = "/".join(incarnation.name for incarnation in effect.path.incarnations)
    match effect.request:
        case CallTool(tool):
            return f"the tool {tool} of process {process!r}"
        case RunCoroutine(body):
            return f"the code {body} of process {process!r}"
        case request:
            return f"{type(request).__name__} of process {process!r}"


# Driving a program: the machine decides, a host does, and what comes of it goes back.
#
# submit(command) ─▶ machine.step ─ Start, Commit, Cancel ─▶ host ─ events ─▶ machine.step ─▶ …
#                         └─ answers, news ─▶ on_action


LONGEST_TURN_MS = 4
"""How long is worked in one turn of the loop: with the longest single step it stays below the 20 ms
that others may have to wait."""


class Driver:
    """The driver of one program's machine. `on_action` is told everything that is not for the
    host; who begins something that many may begin at once enters by the `gate`."""

    def __init__(self, machine: Machine, host: Host, on_action: Callable[[Action], None]) -> None:
        self.machine = machine
        self._host = host
        self._on_action = on_action
        self.gate = TurnGate(lambda: host.now, LONGEST_TURN_MS)
        self.failure: Exception | None = None
        """A machine or journal that failed: the program does not go on."""
        self._is_stepping = False

    def submit(self, event: Event) -> list[Action]:
        """Step the machine at once. What the step wants done is begun when this returns, not
        before."""
        if self.failure is not None:
            raise self.failure
        outer, self._is_stepping = self._is_stepping, True
        try:
            actions = self.machine.step(event, self._host.now)
            for action in actions:
                if isinstance(action, Start):
                    self._host.start(action.effect, speculative=action.speculative)
                elif isinstance(action, Commit):
                    self._host.commit(action.key)
                elif isinstance(action, Cancel):
                    self._host.cancel(action.key, late=action.late)
                else:
                    self._on_action(action)
        finally:
            self._is_stepping = outer
        return actions

    def submit_between(self, event: Event) -> None:
        """Step the machine, and not in the middle of a step: on Ctrl-C asyncio cancels a task in
        its signal handler, which runs between any two instructions."""
        if not self._is_stepping:
            self.submit(event)
        else:
            asyncio.get_running_loop().call_soon(self._submit_late, event)

    def _submit_late(self, event: Event) -> None:
        if self.failure is None:
            self.submit(event)

    async def run(self) -> None:
        """Step the machine by what arrives, until cancelled."""
        try:
            while True:
                self.submit_all(await self._host.next())
        except Exception as failure:
            self.fail(failure)
            raise

    def submit_all(self, events: Iterable[Event]) -> None:
        """Step the machine by each event in turn."""
        for event in events:
            self.submit(event)

    def fail(self, failure: Exception) -> None:
        """End the program with an error. An error that the user can fix is told to all who wait,
        and is no news for a log; that a store is away is."""
        self.failure = failure
        if isinstance(failure, StoreError):
            _LOG.error("the program cannot go on: %s", failure)
        elif not isinstance(failure, UserError):
            _LOG.error("the program cannot go on", exc_info=failure)
