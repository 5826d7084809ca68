"""Services of a tenant: which of them takes a request, and the slots that requests hold (pure).

A slot is a lease: it is held by one request and ends at a time of its own, so that a holder that
dies gives it back by dying. The load of a service is the number of its slots, nothing else counts
it: no load can be left behind by somebody who forgot to lower it.

| health    | takes requests while its load is below | chosen                                     |
|-----------|----------------------------------------|--------------------------------------------|
| healthy   | `max_concurrent`                       | first: the least loaded, by share          |
| degraded  | half of it, rounded down               | when no healthy one takes any: likewise    |
| unhealthy | 0                                      | never                                      |
| unknown   | 0                                      | never                                      |

A slot of a request that waits ends at the deadline of the request; of one that somebody works on,
with the lease of who does, if that is sooner.

| the request is | event                                 | becomes | and                           |
|----------------|---------------------------------------|---------|-------------------------------|
| queued         | taken                                 | taken   | its holder has a lease        |
| taken          | renewed by its holder                 | taken   | the lease is longer           |
| taken          | completed by its holder in time       | done    | the slot is free              |
| taken          | its lease ends                        | queued  | the next one may take it      |
| taken          | the lease of `MOST_TAKEN` has ended   | done    | lost: it may be what kills    |
| queued, taken  | its deadline                          | done    | late; the slot is free        |
| queued         | its service takes no more             | queued  | at another one, if one can    |
| queued, taken  | its service is gone                   | queued  | at another one; lost if none  |
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from vegakit.errors import BugError, InvalidRuleError

MOST_SLOTS = 1_000
"""The most requests that one service works on at a time: all of them are in its record."""
MOST_TAKEN = 5
"""How often a request is handed out: one that kills its holders would kill them all."""


class ServiceType(StrEnum):
    """The types of services."""

    FLOW = "flow"
    WORKER = "worker"
    VERTICAL = "vertical"
    INFERENCE = "inference"


class ServiceHealth(StrEnum):
    """A service says this of itself; the table of this module says what follows."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class ServiceFacts(Struct, frozen=True):
    """A service as it has registered itself. One with a `ttl_ms` that says nothing for so long is
    gone; one without stays until it is unregistered."""

    name: str
    type: ServiceType
    max_concurrent: int
    checked_ms: int
    version: str = ""
    capabilities: tuple[str, ...] = ()
    health: ServiceHealth = ServiceHealth.HEALTHY
    ttl_ms: int | None = None
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if not 1 <= self.max_concurrent <= MOST_SLOTS:
            raise InvalidRuleError(
                f"a service works on 1 to {MOST_SLOTS} requests at a time; got "
                f"max_concurrent={self.max_concurrent}; register more services for more"
            )

    @property
    def room(self) -> int:
        """Return how many requests it may have at a time, as it is now."""
        return self.max_concurrent * _HALVES[self.health] // 2


_HALVES = {
    ServiceHealth.HEALTHY: 2,
    ServiceHealth.DEGRADED: 1,
    ServiceHealth.UNHEALTHY: 0,
    ServiceHealth.UNKNOWN: 0,
}
_CHOSEN_FIRST = [ServiceHealth.HEALTHY, ServiceHealth.DEGRADED]


class Service(Struct):
    """A service and its slots: each is held by a request, and ends at a time of its own."""

    facts: ServiceFacts
    slots: dict[str, int] = field(default_factory=dict)

    @property
    def load(self) -> int:
        """Return how many requests it has."""
        return len(self.slots)

    @property
    def can_accept(self) -> bool:
        """Return whether it takes one more request now."""
        return self.load < self.facts.room

    @property
    def expires_ms(self) -> int | None:
        """Return when it is gone, unless it says something before."""
        ttl_ms = self.facts.ttl_ms
        return None if ttl_ms is None else self.facts.checked_ms + ttl_ms

    @property
    def due_ms(self) -> int | None:
        """Return when time next brings something about: a slot ends, or all of it."""
        times = [*self.slots.values()]
        if self.expires_ms is not None:
            times.append(self.expires_ms)
        return min(times, default=None)

    def is_there(self, now: int) -> bool:
        """Return whether it has said something lately. Like every lease, it ends *at* its time."""
        return self.expires_ms is None or now < self.expires_ms

    def check_in(self, health: ServiceHealth, now: int) -> None:
        """Take what a service says of itself."""
        self.facts = replace(self.facts, health=health, checked_ms=max(now, self.facts.checked_ms))

    def acquire_slot(self, request: str, until_ms: int) -> None:
        """Count a request in; whoever calls has seen that it can be accepted."""
        if request not in self.slots and not self.can_accept:
            raise BugError(f"service {self.facts.name} has no slot left for request {request}")
        self.slots[request] = until_ms

    def keep_slot(self, request: str, until_ms: int) -> None:
        """Let the slot of a request end at another time."""
        if request not in self.slots:
            raise BugError(f"request {request} has no slot of service {self.facts.name}")
        self.slots[request] = until_ms

    def release_slot(self, request: str) -> None:
        """Give a slot back; giving it back twice is harmless."""
        self.slots.pop(request, None)

    def ended_slots(self, now: int) -> list[str]:
        """Return the requests whose slots have ended, the first to end first."""
        ended = [(until_ms, request) for request, until_ms in self.slots.items() if until_ms <= now]
        return [request for _, request in sorted(ended)]


def choose_service(services: Iterable[Service], capability: str, now: int) -> Service | None:
    """Return the service that takes a request: the least loaded healthy one, then the least loaded
    degraded one; of equals the first by name. None if none takes any now."""
    able = [
        service
        for service in services
        if service.is_there(now)
        and service.can_accept
        and (not capability or capability in service.facts.capabilities)
    ]
    return min(able, key=_order, default=None)


def _order(service: Service) -> tuple[int, float, str]:
    facts = service.facts
    share = service.load / facts.max_concurrent
    return _CHOSEN_FIRST.index(facts.health), share, facts.name
