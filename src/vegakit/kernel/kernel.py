"""The kernel: the operations of `control.KERNEL_OPERATIONS` on a shared store, for many tenants.

    door ── authenticated caller ──▶ TenantKernel ── request ──▶ one transaction ──▶ reply

Any number of kernels may run on one store; each may be killed at any moment, and another answers
the next call. What time brings about (a question expires, a lease ends, a session is idle) is
swept by every kernel; each finding is decided anew in its transaction, so that it happens once.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from vegakit.control import CommandStatus, KernelEvent
from vegakit.errors import StoreError, UserError
from vegakit.ids import TenantId, new_program_id
from vegakit.kernel import commands, interrupts, processes, services, sessions, status
from vegakit.kernel.executions import Executions
from vegakit.kernel.handlers import Handlers, ServiceHandler
from vegakit.kernel.tables import (
    CALL,
    COMMAND,
    COUNTED,
    DONE,
    ENVELOPE,
    HANDLED,
    INTERRUPT,
    KEEP_MS,
    PROCESS,
    RATE,
    RUNNING,
    SERVICE,
    SESSION,
    KernelTables,
)
from vegakit.kernel.tenants import BudgetedAgents
from vegakit.money import Money
from vegakit.policy import InterruptStatus, ProcessState, ServiceHealth, UserRateRule
from vegakit.ports import AgentRunner, Bell, Bus, Clock, TenantRecords, TenantStore
from vegakit.records import from_json
from vegakit.store import LocalBus

T = TypeVar("T")

_LOG = logging.getLogger("vegakit")

PAGE = 200
POLL_MS = 250
"""How soon a kernel sees what happened at another one; what happened here, or is told by a bus that
they share, it sees at once."""


KEEP_CALLS_MS = 3_600_000
"""How long the response to a request of a service is kept for whoever asks again."""
_FORGET_EVERY_MS = 600_000

EventListener: TypeAlias = Callable[[TenantId, KernelEvent], None]


class Kernel:
    """The kernel of all tenants on one store. With `agents` it also runs pipelines itself;
    `user_rate` limits each user of each tenant."""

    def __init__(
        self,
        store: TenantStore,
        clock: Clock,
        agents: AgentRunner | None = None,
        *,
        bus: Bus | None = None,
        user_rate: UserRateRule | None = None,
    ) -> None:
        self.store, self.clock = store, clock
        self.bus = bus or LocalBus(clock)
        self.user_rate = user_rate or UserRateRule()
        self.executions = Executions(self, agents and BudgetedAgents(self, agents))
        self.started_ms = clock.now()
        self.is_draining = False
        self.handlers = Handlers(store, clock, self.transact)
        self._listeners: list[EventListener] = []

    def register_handler(self, service: str, handler: ServiceHandler) -> None:
        """Have an async function work on the requests to the service of this name, of every tenant
        that has registered one. Requests that come in at other servers are worked on, too, while
        `keep_sweeping` runs."""
        self.handlers.register(service, handler)

    def on_event(self, listener: EventListener) -> None:
        """Call a function with every event that this kernel causes, after it is kept and in the
        order of each tenant. What it raises is logged. It is called in the event loop and holds
        that up; `watch_events` also shows what other servers cause."""
        self._listeners.append(listener)

    async def transact(self, tenant: TenantId, decide: Callable[[KernelTables], T]) -> T:
        """Carry out a decision in a transaction of the tenant, and wake whoever waits for one."""
        now, told = self.clock.now(), list[bytes]()
        has_changed = False

        def work(records: TenantRecords) -> T:
            nonlocal has_changed
            tables = KernelTables(records, now)
            result = decide(tables)
            told[:], has_changed = tables.told, tables.has_changed
            return result

        if self._listeners:
            # Listeners are told by the commit and not by the caller, which may be cancelled.
            keeping = asyncio.ensure_future(self.store.transact(tenant, work))
            keeping.add_done_callback(lambda kept: self._tell(tenant, told, kept))
            result = await asyncio.shield(keeping)
        else:
            result = await self.store.transact(tenant, work)
        # Who waits looks again when it is woken; were it woken by a look, none would ever sleep.
        if has_changed:
            self.bus.ring(tenant)
        return result

    def _tell(self, tenant: TenantId, told: list[bytes], kept: "asyncio.Future[Any]") -> None:
        if kept.cancelled() or kept.exception() is not None:
            return
        for event in [from_json(KernelEvent, text) for text in told]:
            for listener in self._listeners:
                try:
                    listener(tenant, event)
                except Exception:  # noqa: BLE001  (the change is made, whatever a listener thinks)
                    _LOG.exception("a listener failed on %s of tenant %s", event.kind, tenant)

    async def read(self, tenant: TenantId, look: Callable[[KernelTables], T]) -> T:
        """Return what the tenant's records say now."""
        now = self.clock.now()
        return await self.store.read(tenant, lambda records: look(KernelTables(records, now)))

    async def wait_for_change(
        self, tenant: TenantId, until_ms: int, bell: Bell | None = None
    ) -> None:
        """Return when something may have changed for the tenant, at the latest at this time. With a
        bell that was there before the caller looked, no change in between is seen late."""
        at_ms = min(until_ms, self.clock.now() + POLL_MS)
        if bell is not None:
            await bell.wait(at_ms)
            return
        with self.bus.listen(tenant) as new:
            await new.wait(at_ms)

    def drain(self) -> None:
        """Have whoever waits on purpose end with what there is now, since this server is about to
        go: a stream ends, and its reader comes back to another server with its cursor."""
        self.is_draining = True

    async def sweep(self) -> int:
        """Carry out what time has brought about, a page of each kind, and return how much that was.
        What cannot be carried out is logged and stands in nobody's way."""
        done = 0
        for due in _DUE:
            up_to = self.clock.now() - due.after_ms
            for tenant, key in await self.store.due(due.kind, due.state, up_to, limit=PAGE):
                try:
                    await self.transact(tenant, partial(due.decide, key=key))
                    done += 1
                except (UserError, StoreError) as error:
                    _LOG.warning("%s %s of tenant %s is due, but: %s", due.kind, key, tenant, error)
        return done

    async def keep_sweeping(self, every_ms: int = 1_000) -> None:
        """Sweep until it is cancelled, pull requests for the handlers of this server, and run the
        pipelines that are due. At the end it lets go of what it runs, for other servers."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.handlers.keep_pulling(POLL_MS))
                await self._keep_sweeping(every_ms)
        finally:
            await self.executions.aclose()

    async def _keep_sweeping(self, every_ms: int) -> None:
        """At once again while there is much, and on when the store fails for a while."""
        forget_at_ms = 0
        while True:
            try:
                is_much = await self.sweep() >= PAGE
                await self.executions.start_due()
                if self.clock.now() >= forget_at_ms:
                    await self.store.forget_events(self.clock.now() - KEEP_MS)
                    forget_at_ms = self.clock.now() + _FORGET_EVERY_MS
            except Exception:  # noqa: BLE001  (nothing would expire any more if this ended)
                _LOG.exception("what is due was not carried out; it is tried again")
                is_much = False
            if not is_much:
                await self.clock.wait_until(self.clock.now() + every_ms)


class _Due(NamedTuple):
    """Documents of a kind and state, whose rank is so long ago, wait for this decision."""

    kind: str
    state: str
    decide: Callable[..., None]
    after_ms: int = 0


_DUE = (
    _Due(INTERRUPT.name, InterruptStatus.PENDING, interrupts.expire),
    _Due(PROCESS.name, ProcessState.RUNNING, processes.give_back),
    _Due(SESSION.name, RUNNING, sessions.end_idle),
    _Due(COMMAND.name, CommandStatus.WAITING, commands.settle_due),
    _Due(COMMAND.name, CommandStatus.TAKEN, commands.settle_due),
    *(
        _Due(HANDLED.name, status, commands.forget, commands.KEEP_MS)
        for status in (CommandStatus.DONE, CommandStatus.FAILED, CommandStatus.EXPIRED)
    ),
    _Due(ENVELOPE.name, "", sessions.forget_envelope, KEEP_MS),
    _Due(PROCESS.name, ProcessState.TERMINATED, processes.reap, KEEP_MS),
    _Due(PROCESS.name, ProcessState.ZOMBIE, processes.reap, KEEP_MS),
    *(_Due(SERVICE.name, health, services.on_due) for health in ServiceHealth),
    _Due(CALL.name, DONE, services.forget, KEEP_CALLS_MS),
    _Due(RATE.name, COUNTED, status.forget_rate),
)


class KernelCaller(NamedTuple):
    """Says who asks, as a door has authenticated it; `wallet` is the token that may spend
    `wallet_cap` in all, if it has a wallet."""

    tenant: TenantId
    user: str
    wallet: str = ""
    wallet_cap: Money | None = None


class Calls:
    """The calls of one caller on a kernel, each one transaction or one look. Operations of one
    subject are a class of these."""

    def __init__(self, kernel: Kernel, caller: KernelCaller) -> None:
        self._kernel, self._caller = kernel, caller

    def _new_id(self) -> str:
        return new_program_id(self._kernel.clock.now(), secrets.token_bytes(10))

    def _do(self, decide: Callable[[KernelTables], T]) -> Awaitable[T]:
        return self._kernel.transact(self._caller.tenant, decide)

    def _see(self, look: Callable[[KernelTables], T]) -> Awaitable[T]:
        return self._kernel.read(self._caller.tenant, look)
