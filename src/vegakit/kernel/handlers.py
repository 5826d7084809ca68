"""Services inside of a server: functions that work on the requests of all tenants.

A handler works by the same leases as a worker outside. A request that is dispatched here is worked
on at once, by the call that waits for it; one that is dispatched at another server, or was left by
one that died, is pulled. So a handler need not be on every server, and a server may be killed.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from vegakit.control import (
    CompleteCallRequest,
    OperationError,
    RenewCallRequest,
    ServiceCall,
    ServiceRequest,
    ServiceResponse,
    TakeCallRequest,
)
from vegakit.errors import UserError
from vegakit.ids import TenantId
from vegakit.kernel import services
from vegakit.kernel.tables import CALL, NEVER, KernelTables, queued_at
from vegakit.ports import Clock, TenantStore

T = TypeVar("T")

ServiceHandler: TypeAlias = Callable[[ServiceRequest], Awaitable[ServiceResponse]]

LEASE_MS = 30_000
_RENEW_MS = LEASE_MS // 3
_MOST_PULLED = 64
"""How many requests a server pulls at a time; those dispatched at it are bounded by its doors."""

_LOG = logging.getLogger("vegakit")


class Transact(Protocol):
    """Carries out a decision in a transaction of a tenant."""

    def __call__(self, tenant: TenantId, decide: Callable[[KernelTables], T], /) -> Awaitable[T]:
        """Return what it decided."""
        ...


class Handlers:
    """The handlers of one server, by the name of their service."""

    def __init__(self, store: TenantStore, clock: Clock, transact: Transact) -> None:
        self._store, self._clock, self._transact = store, clock, transact
        self._by_service: dict[str, ServiceHandler] = {}

    def register(self, service: str, handler: ServiceHandler) -> None:
        """Have a function work on the requests of a service; the last one counts."""
        self._by_service[service] = handler

    async def run(self, tenant: TenantId, call: ServiceCall) -> bool:
        """Work on a request, if it is for a handler of this server and nobody else works on it;
        return whether that was so."""
        handler = self._by_service.get(call.service)
        return handler is not None and await self._run(tenant, call.service, call.id, handler)

    async def keep_pulling(self, every_ms: int) -> None:
        """Pull requests that nobody works on, until it is cancelled."""
        running: set[tuple[TenantId, str]] = set()

        async def work(place: tuple[TenantId, str], service: str, handler: ServiceHandler) -> None:
            try:
                await self._run(place[0], service, place[1], handler)
            except Exception:  # noqa: BLE001  (one request must not end the pulling of all)
                _LOG.exception("a request to service %s was left for others", service)
            finally:
                running.discard(place)

        async with asyncio.TaskGroup() as group:
            while True:
                for service, handler in [*self._by_service.items()]:
                    for place in await self._waiting(service, _MOST_PULLED - len(running)):
                        if place not in running:
                            running.add(place)
                            group.create_task(work(place, service, handler))
                await self._clock.wait_until(self._clock.now() + every_ms)

    async def _waiting(self, service: str, most: int) -> list[tuple[TenantId, str]]:
        try:
            return [*await self._store.due(CALL.name, queued_at(service), NEVER, limit=most)]
        except Exception:  # noqa: BLE001  (a store that fails for a while is asked again)
            _LOG.exception("requests to service %s were not looked for; it is tried again", service)
            return []

    async def _run(self, tenant: TenantId, service: str, key: str, handler: ServiceHandler) -> bool:
        # Each take has a holder of its own: what was begun under an earlier lease is then late.
        holder = f"server {secrets.token_hex(8)}"
        take = TakeCallRequest(service, holder, LEASE_MS)
        try:
            call = await self._transact(tenant, partial(services.take, request=take, key=key))
            if call is None:
                return False
            response = await self._work(tenant, call, handler)
            if response is not None:
                done = CompleteCallRequest(key, holder, response)
                await self._transact(tenant, partial(services.complete, request=done))
        except OperationError as error:
            _LOG.info("request %s of tenant %s: %s", key, tenant, error)
            return False
        return True

    async def _work(
        self, tenant: TenantId, call: ServiceCall, handler: ServiceHandler
    ) -> ServiceResponse | None:
        """Return the response of the handler; None when its time is over. Its lease is renewed for
        as long as it works."""
        renew = RenewCallRequest(call.id, call.holder, LEASE_MS)
        working = asyncio.ensure_future(_answered(call, handler))
        try:
            while not working.done():
                now = self._clock.now()
                if now >= call.deadline_ms:
                    return None
                timer: asyncio.Future[Any] = asyncio.ensure_future(
                    self._clock.wait_until(min(now + _RENEW_MS, call.deadline_ms))
                )
                await asyncio.wait({working, timer}, return_when=asyncio.FIRST_COMPLETED)
                timer.cancel()
                if not working.done() and self._clock.now() < call.deadline_ms:
                    await self._transact(tenant, partial(services.renew, request=renew))
            return working.result()
        finally:
            working.cancel()


async def _answered(call: ServiceCall, handler: ServiceHandler) -> ServiceResponse:
    try:
        return await handler(call.request)
    except UserError as error:
        return ServiceResponse(error=str(error)[:10_000])
    except Exception as error:  # noqa: BLE001  (whoever asked is told, and the server goes on)
        # What it says may be of another tenant or of this machine: the log has it, the caller not.
        _LOG.exception("the handler of service %s failed", call.service)
        return ServiceResponse(
            error=f"the handler of {call.service!r} failed: {type(error).__name__}"
        )
