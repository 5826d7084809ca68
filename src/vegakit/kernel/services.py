"""Services of a tenant, and the requests that go to them: each function is one decision.

    dispatch ──▶ the least loaded service: a slot ──▶ take_request ──▶ complete_request ──▶ reply

The rules are those of `policy.services`. A request that is not done is in the slots of exactly one
service, and in one place of the queue of that service: both are written in one transaction, so
that a slot comes back with every way in which a request ends, whoever was killed meanwhile. What
time ends is found by the service: its rank is when the first of its slots ends.
"""

from msgspec.structs import replace

from vegakit.control import (
    CompleteCallRequest,
    DispatchRequest,
    KernelEventKind,
    ListServicesRequest,
    OperationError,
    RefusalCode,
    RegisterServiceRequest,
    RenewCallRequest,
    ServiceCall,
    ServiceOutcome,
    ServicePage,
    ServiceResponse,
    ServiceStats,
    ServiceView,
    TakeCallRequest,
    UpdateHealthRequest,
)
from vegakit.kernel.tables import (
    CALL,
    PROCESS,
    SERVICE,
    KernelTables,
    check_repeats,
    queued_at,
)
from vegakit.policy import (
    MOST_TAKEN,
    Service,
    ServiceFacts,
    ServiceHealth,
    choose_service,
)
from vegakit.records import to_json

_MOST_SERVICES = 1_000
_MOST_METADATA = 16 << 10
_MOST_SERVICE_BYTES = 2 << 20
_LOOKED_AT = 10
"""How many of a queue are looked at: requests whose time is over stand first until a sweep."""
_SIGNS_OF_LIFE = 3
"""A service that takes requests checks in so often in its time to live, not with every one."""


# Services.


def register(tables: KernelTables, request: RegisterServiceRequest) -> ServiceView:
    """Keep a service. One that is there keeps its requests."""
    there = tables.get(SERVICE, request.name)
    if len(to_json(request.metadata)) > _MOST_METADATA:
        raise OperationError(
            RefusalCode.INVALID,
            f"the metadata of a service are at most {_MOST_METADATA} bytes of JSON",
        )
    others = tables.records.find(SERVICE.name, limit=_MOST_SERVICES)
    sizes = {one.key: len(one.value) for one in others}
    before, after = sizes.pop(request.name, 0), len(to_json(request))
    if after > before and sum(sizes.values()) + after > _MOST_SERVICE_BYTES:
        raise OperationError(
            RefusalCode.EXHAUSTED,
            f"the services of a tenant are at most {_MOST_SERVICE_BYTES} bytes of JSON, as to find "
            "one all are read; give them less metadata, or unregister some",
        )
    if there is None and len(others) >= _MOST_SERVICES:
        raise OperationError(
            RefusalCode.EXHAUSTED,
            f"a tenant has at most {_MOST_SERVICES} services; unregister some, or give those there "
            "are more slots",
        )
    facts = ServiceFacts(
        request.name,
        request.type,
        request.max_concurrent,
        tables.now,
        version=request.version,
        capabilities=request.capabilities,
        health=request.health,
        ttl_ms=request.ttl_ms or None,
        metadata=request.metadata,
    )
    service = Service(facts, {} if there is None else there.slots)
    tables.emit(KernelEventKind.SERVICE_REGISTERED, "", service=facts)
    return view(tables.put(SERVICE, service))


def view(service: Service) -> ServiceView:
    """Return a service as callers see it."""
    return ServiceView(service.facts, service.load, service.can_accept, service.expires_ms)


def needed(tables: KernelTables, name: str) -> Service:
    """Return a service that is there, or refuse an operation on one that is not, or no longer."""
    service = tables.need(SERVICE, name)
    if not service.is_there(tables.now):
        raise OperationError(
            RefusalCode.NOT_FOUND,
            f"service {name!r} has said nothing for {service.facts.ttl_ms} ms and is gone; "
            "register it again",
        )
    return service


def unregister(tables: KernelTables, name: str) -> ServiceView:
    """Take a service away, and its requests to others."""
    service = needed(tables, name)
    _remove(tables, service, "it was unregistered")
    return view(service)


def update_health(tables: KernelTables, request: UpdateHealthRequest) -> ServiceView:
    """Take what a service says of itself. From one that takes no more requests, those that wait go
    to others that do."""
    service = needed(tables, request.name)
    others = _accepting(tables) if service.slots else {}
    before = service.facts.health
    service.check_in(request.health, tables.now)
    if before is not request.health:
        tables.emit(
            KernelEventKind.SERVICE_HEALTH_CHANGED,
            "",
            service=request.name,
            old_health=before,
            health=request.health,
        )
    others.pop(request.name, None)
    if not service.facts.room:
        for call in _calls_of(tables, service):
            if not call.holder and (next_ := _other_for(tables, call, others)):
                _move(tables, call, service, next_)
    return view(tables.put(SERVICE, service))


def list_page(tables: KernelTables, request: ListServicesRequest) -> ServicePage:
    """Return a page of services."""
    found, next_ = tables.page(
        SERVICE, owner=request.type, after=request.after, limit=request.limit
    )
    shown = [
        view(service)
        for service in found
        if service.is_there(tables.now)
        and (not request.capability or request.capability in service.facts.capabilities)
    ]
    return ServicePage(tuple(shown), next_)


def stats(tables: KernelTables) -> ServiceStats:
    """Count all services."""
    found, _ = tables.find(SERVICE, limit=_MOST_SERVICES)
    there = [service for service in found if service.is_there(tables.now)]
    by_type: dict[str, int] = {}
    for service in there:
        by_type[service.facts.type] = by_type.get(service.facts.type, 0) + 1
    return ServiceStats(
        len(there),
        sum(service.facts.health is ServiceHealth.HEALTHY for service in there),
        by_type,
        sum(service.load for service in there),
        sum(service.facts.room for service in there),
    )


# Requests.


def place(tables: KernelTables, request: DispatchRequest, key: str) -> ServiceCall:
    """Give a request to the least loaded service. One that is there already is returned."""
    if bool(request.service) == bool(request.capability):
        raise OperationError(
            RefusalCode.INVALID, "name the service, or else the capability that is needed"
        )
    there = tables.get(CALL, key)
    if there is not None:
        service = there.service if request.capability else request.service
        pairs = {
            "capability": (there.capability, request.capability),
            "service": (there.service, service),
            "request": (there.request, request.request),
        }
        check_repeats(f"request {key!r}", pairs, "id")
        return there
    if request.request.pid:
        process = tables.need(PROCESS, request.request.pid)
        if not process.state.is_living:
            raise OperationError(
                RefusalCode.CONFLICT, f"process {process.pid!r} has ended and asks no service"
            )
    service = _chosen(tables, request)
    call = ServiceCall(
        key,
        service.facts.name,
        request.request,
        tables.now,
        tables.now + request.timeout_ms,
        capability=request.capability,
    )
    service.acquire_slot(key, call.deadline_ms)
    tables.put(SERVICE, service)
    return tables.put(CALL, call)


def _chosen(tables: KernelTables, request: DispatchRequest) -> Service:
    if request.service:
        service = needed(tables, request.service)
        if service.can_accept:
            return service
        facts = service.facts
        raise OperationError(
            RefusalCode.EXHAUSTED,
            f"service {facts.name!r} is {facts.health} and has {service.load} of "
            f"{facts.room} requests; try again later",
        )
    services = _accepting(tables)
    chosen = choose_service(services.values(), request.capability, tables.now)
    if chosen is None:
        raise OperationError(
            RefusalCode.EXHAUSTED,
            f"no service with the capability {request.capability!r} takes a request now; "
            "list_services shows those there are: register one, or try again later",
        )
    return chosen


def has_work(tables: KernelTables, name: str) -> bool:
    """Say whether `take` would change anything: a request waits, or the service has to show that it
    lives."""
    service = needed(tables, name)
    if _has_to_check_in(service, tables.now):
        return True
    return bool(tables.records.find(CALL.name, state=queued_at(name), limit=1))


def _has_to_check_in(service: Service, now: int) -> bool:
    ttl_ms = service.facts.ttl_ms
    return ttl_ms is not None and now - service.facts.checked_ms > ttl_ms // _SIGNS_OF_LIFE


def take(tables: KernelTables, request: TakeCallRequest, key: str = "") -> ServiceCall | None:
    """Take the request of a service that is due first, or the one of this key; None if there is
    none. Whoever takes requests lives: that is a sign of life of the service."""
    service = needed(tables, request.service)
    call = _next_of(tables, request.service) if not key else tables.get(CALL, key)
    facts, now = service.facts, tables.now
    if _has_to_check_in(service, now):
        service.check_in(facts.health, now)
        tables.put(SERVICE, service)
    if call is None or call.outcome is not None or call.holder or call.service != facts.name:
        return None
    if call.deadline_ms <= now:
        return None
    until_ms = min(now + request.lease_ms, call.deadline_ms)
    service.keep_slot(call.id, until_ms)
    tables.put(SERVICE, service)
    taken = replace(call, holder=request.holder, lease_until_ms=until_ms, taken=call.taken + 1)
    return tables.put(CALL, taken)


def _next_of(tables: KernelTables, service: str) -> ServiceCall | None:
    found, _ = tables.find(CALL, state=queued_at(service), limit=_LOOKED_AT)
    return next((call for call in found if call.deadline_ms > tables.now), None)


def renew(tables: KernelTables, request: RenewCallRequest) -> ServiceCall:
    """Keep a request that its holder still works on, at most until its deadline."""
    call = _held(tables, request.id, request.holder)
    service = tables.need(SERVICE, call.service)
    until_ms = min(tables.now + request.lease_ms, call.deadline_ms)
    service.keep_slot(call.id, until_ms)
    tables.put(SERVICE, service)
    return tables.put(CALL, replace(call, lease_until_ms=until_ms))


def complete(tables: KernelTables, request: CompleteCallRequest) -> ServiceCall:
    """Take the response of the holder. One that says it again is told that it was taken."""
    there = tables.need(CALL, request.id)
    if there.holder == request.holder and there.response == request.response:
        return there
    call = _held(tables, request.id, request.holder)
    failed = bool(request.response.error)
    outcome = ServiceOutcome.FAILED if failed else ServiceOutcome.COMPLETED
    service = tables.need(SERVICE, call.service)
    done = _finish(tables, call, service, outcome, request.response)
    tables.put(SERVICE, service)
    return done


def _held(tables: KernelTables, key: str, holder: str) -> ServiceCall:
    call = tables.need(CALL, key)
    alive = call.lease_until_ms is not None and tables.now < call.lease_until_ms
    if call.outcome is not None or call.holder != holder or not alive:
        raise OperationError(
            RefusalCode.CONFLICT,
            f"{holder!r} no longer holds request {key[:80]!r}: its lease ended, or it is over; "
            "stop working on it",
        )
    return call


def expire(tables: KernelTables, key: str) -> ServiceCall:
    """End a request whose deadline has passed, and return how it stands."""
    call = tables.need(CALL, key)
    if call.outcome is None and call.deadline_ms <= tables.now:
        service = tables.need(SERVICE, call.service)
        call = _end_slot(tables, call, service)
        tables.put(SERVICE, service)
    return call


# What time brings about.


def on_due(tables: KernelTables, key: str) -> None:
    """Carry out what time has brought about at a service: it is gone, or some of its slots end."""
    service = tables.get(SERVICE, key)
    if service is None:
        return
    if not service.is_there(tables.now):
        _remove(tables, service, f"it has said nothing for {service.facts.ttl_ms} ms")
        return
    for request in service.ended_slots(tables.now):
        call = tables.get(CALL, request)
        if call is None:
            service.release_slot(request)
        else:
            _end_slot(tables, call, service)
    tables.put(SERVICE, service)


def forget(tables: KernelTables, key: str) -> None:
    """Forget a request that ended long ago."""
    call = tables.get(CALL, key)
    if call is not None and call.outcome is not None:
        tables.records.delete(CALL.name, key)


def _end_slot(tables: KernelTables, call: ServiceCall, service: Service) -> ServiceCall:
    """End what has ended of a request: all of it, or the lease of who worked on it."""
    if call.deadline_ms <= tables.now:
        error = "no response came before its deadline"
        return _finish(tables, call, service, ServiceOutcome.LATE, ServiceResponse(error=error))
    if call.taken >= MOST_TAKEN:
        error = f"{call.taken} workers took it, and all of them let their leases end"
        return _finish(tables, call, service, ServiceOutcome.LOST, ServiceResponse(error=error))
    service.keep_slot(call.id, call.deadline_ms)
    return tables.put(CALL, replace(call, holder="", lease_until_ms=None))


def _finish(
    tables: KernelTables,
    call: ServiceCall,
    service: Service,
    outcome: ServiceOutcome,
    response: ServiceResponse,
) -> ServiceCall:
    """Keep how a request has ended, and give its slot back; the caller keeps the service."""
    service.release_slot(call.id)
    return tables.put(CALL, replace(call, outcome=outcome, response=response, done_ms=tables.now))


def _remove(tables: KernelTables, service: Service, why: str) -> None:
    """Forget a service. Its requests go to others, also those that somebody works on: whoever does
    is taken to be gone with it."""
    others = _accepting(tables) if service.slots else {}
    name = service.facts.name
    others.pop(name, None)
    for call in _calls_of(tables, service):
        next_ = _other_for(tables, call, others)
        if next_ is not None and call.taken < MOST_TAKEN and call.deadline_ms > tables.now:
            _move(tables, call, service, next_)
        else:
            error = f"service {name!r} is gone: {why}"
            _finish(tables, call, service, ServiceOutcome.LOST, ServiceResponse(error=error))
    tables.emit(KernelEventKind.SERVICE_REMOVED, "", service=name, reason=why)
    tables.records.delete(SERVICE.name, name)


def _calls_of(tables: KernelTables, service: Service) -> list[ServiceCall]:
    found = [tables.get(CALL, request) for request in service.slots]
    return [call for call in found if call is not None]


def _accepting(tables: KernelTables) -> dict[str, Service]:
    """The services that take requests; found before anything is changed."""
    healths = [ServiceHealth.HEALTHY, ServiceHealth.DEGRADED]
    return {
        service.facts.name: service
        for health in healths
        for service in tables.find(SERVICE, state=health, limit=_MOST_SERVICES)[0]
    }


def _other_for(
    tables: KernelTables, call: ServiceCall, others: dict[str, Service]
) -> Service | None:
    """Another service that can do a request which has asked for a capability."""
    if not call.capability:
        return None
    return choose_service(others.values(), call.capability, tables.now)


def _move(tables: KernelTables, call: ServiceCall, source: Service, target: Service) -> None:
    source.release_slot(call.id)
    target.acquire_slot(call.id, call.deadline_ms)
    tables.put(SERVICE, target)
    moved = replace(call, service=target.facts.name, holder="", lease_until_ms=None)
    tables.put(CALL, moved)
