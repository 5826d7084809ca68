"""Services of a kernel, requests to them, and the standing of users and processes (pure).

Records, requests and replies, and their rows of the kernel's table at the end. A service outside
of a server pulls: it takes requests and completes them, each held by a lease (decision 22).
"""

from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta, Struct

from vegakit.control.kernel_messages import (
    InterruptRecord,
    JsonObject,
    KernelProcess,
    Name,
    OptionalName,
    PageSize,
    PidRequest,
    PipelineEnvelope,
    ProcessCounts,
    SessionRecord,
)
from vegakit.control.messages import EmptyRequest
from vegakit.control.operations import Operation, Right
from vegakit.policy import (
    RateDecision,
    RateSpan,
    RemainingBudget,
    ServiceFacts,
    ServiceHealth,
    ServiceType,
    SpanUsage,
)

_Wait: TypeAlias = Annotated[int, Meta(ge=0, le=60_000)]
_Lease: TypeAlias = Annotated[int, Meta(ge=1, le=3_600_000)]
_ErrorText: TypeAlias = Annotated[str, Meta(max_length=10_000)]


# Services.


class RegisterServiceRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A service that registers again says what is different now, and keeps the requests it has.
    It says something within `ttl_ms` (`update_health`, `take_request`), or is gone; with 0 it stays
    until it is unregistered."""

    name: Name
    type: ServiceType = ServiceType.WORKER
    version: OptionalName = ""
    capabilities: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    max_concurrent: Annotated[int, Meta(ge=1, le=1_000)] = 1
    health: ServiceHealth = ServiceHealth.HEALTHY
    ttl_ms: Annotated[int, Meta(ge=0, le=7 * 86_400_000)] = 30_000
    metadata: JsonObject = {}


class ServiceNameRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The service that an operation is about."""

    name: Name


class UpdateHealthRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A service says this of itself; it counts as a sign of life."""

    name: Name
    health: ServiceHealth = ServiceHealth.HEALTHY


class ServiceView(Struct, frozen=True, omit_defaults=True):
    """A service, how many requests it has, and when it is gone if it says nothing more."""

    service: ServiceFacts
    load: int
    can_accept: bool
    expires_ms: int | None = None


class ListServicesRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`after` is `next` of the page before. A page of one capability may be short of `limit`
    although more follow."""

    type: ServiceType | None = None
    capability: OptionalName = ""
    after: OptionalName = ""
    limit: PageSize = 100


class ServicePage(Struct, frozen=True, omit_defaults=True):
    """A page of services by name; `next` is empty on the last page."""

    services: tuple[ServiceView, ...]
    next: str = ""


class ServiceStats(Struct, frozen=True):
    """All services of a tenant; `capacity` is how many requests they take at most, as they are."""

    services: int
    healthy: int
    by_type: dict[str, int]
    load: int
    capacity: int


# Requests to services.


class ServiceRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A service is asked to do this, for a process or for none."""

    pid: OptionalName = ""
    envelope: PipelineEnvelope | None = None
    metadata: JsonObject = {}


class ServiceResponse(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A service has done this; an `error` says why it has not."""

    envelope: PipelineEnvelope | None = None
    error: _ErrorText = ""
    metadata: JsonObject = {}


class ServiceOutcome(StrEnum):
    """The ways in which a request to a service ends. A late one may still have been done."""

    COMPLETED = "completed"
    FAILED = "failed"
    LATE = "late"
    LOST = "lost"


class ServiceCall(Struct, frozen=True, omit_defaults=True):
    """A request on its way. `service` has it now; `holder` works on it until its lease ends, and
    has been given it as the `taken`-th. It asked for a service by name, or for a `capability`."""

    id: str
    service: str
    request: ServiceRequest
    made_ms: int
    deadline_ms: int
    capability: str = ""
    holder: str = ""
    lease_until_ms: int | None = None
    taken: int = 0
    outcome: ServiceOutcome | None = None
    response: ServiceResponse | None = None
    done_ms: int | None = None


class DispatchRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Names a service or a capability. A caller that names the `id` may ask again without having it
    done twice: it gets the response of the first time, or goes on waiting for it."""

    service: OptionalName = ""
    capability: OptionalName = ""
    request: ServiceRequest = ServiceRequest()
    id: OptionalName = ""
    timeout_ms: _Lease = 60_000


class DispatchReply(Struct, frozen=True, omit_defaults=True):
    """Says how a request ended, and at which service."""

    id: str
    service: str
    outcome: ServiceOutcome
    response: ServiceResponse


class TakeCallRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`holder` takes the next request of a service; if it renews nothing for `lease_ms`, the
    request is handed out again. While there is none the reply waits, for at most `wait_ms`."""

    service: Name
    holder: Name
    lease_ms: _Lease = 60_000
    wait_ms: _Wait = 0


class TakenCall(Struct, frozen=True, omit_defaults=True):
    """The request to work on; None if there is none."""

    call: ServiceCall | None = None


class RenewCallRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`holder` still works on the request, and will say so again within `lease_ms`."""

    id: Name
    holder: Name
    lease_ms: _Lease = 60_000


class CompleteCallRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`holder` has done the request; of one that it no longer holds nothing is taken."""

    id: Name
    holder: Name
    response: ServiceResponse = ServiceResponse()


# How users, processes and the kernel as a whole stand.


class CheckRateLimitRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Takes `wanted` requests of a user's limits if they fit; of the caller's if no `user` is
    named. Without `take` it only looks."""

    user: OptionalName = ""
    wanted: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    take: bool = True


class RateLimitReply(Struct, frozen=True):
    """Whether the requests fit, and what counts now, by limit."""

    user: str
    decision: RateDecision
    usage: dict[RateSpan, SpanUsage]


class UserRateUsage(Struct, frozen=True):
    """A user has used this much of each limit."""

    by_span: dict[RateSpan, SpanUsage]


class SystemStatus(Struct, frozen=True, omit_defaults=True):
    """The kernel as a tenant sees it. `services` are counted by type; `rate_limits` is what the
    users who asked last have used, by user."""

    uptime_ms: int
    processes: ProcessCounts
    pending_interrupts: int
    services: dict[str, int] = {}
    rate_limits: dict[str, UserRateUsage] = {}


class KernelRequestStatus(Struct, frozen=True, omit_defaults=True):
    """A process with all that is of it: the envelope of its session, the question that holds it,
    and what it may still use."""

    process: KernelProcess
    remaining: RemainingBudget
    envelope: PipelineEnvelope | None = None
    interrupt: InterruptRecord | None = None


class Bound(Struct, frozen=True, omit_defaults=True):
    """One limit of a process or of the pipeline of its session; no `limit` is none."""

    name: str
    used: int
    limit: int | None = None
    remaining: int | None = None


class BoundsReply(Struct, frozen=True, omit_defaults=True):
    """Every bound of a process and of its session. `exceeded` is the bound of the process that
    nothing fits any more, `ended_by` why its session ended; empty if it has not."""

    process: tuple[Bound, ...]
    session: tuple[Bound, ...] = ()
    exceeded: str = ""
    ended_by: str = ""


SERVICE_ROWS: Final[tuple[Operation[Any, Any], ...]] = (
    Operation(
        "register_service",
        RegisterServiceRequest,
        ServiceView,
        Right.ACT,
        "Offer a service, or say what is different now.",
    ),
    Operation(
        "unregister_service",
        ServiceNameRequest,
        ServiceView,
        Right.ACT,
        "Take a service away; its requests go to others that can do them.",
        idempotent=False,
        destructive=True,
    ),
    Operation(
        "update_health",
        UpdateHealthRequest,
        ServiceView,
        Right.ACT,
        "Say how a service is, and that it lives.",
    ),
    Operation(
        "get_service",
        ServiceNameRequest,
        ServiceView,
        Right.READ,
        "Show a service, its load and its health.",
    ),
    Operation(
        "list_services",
        ListServicesRequest,
        ServicePage,
        Right.READ,
        "List services, of a type or with a capability, a page at a time.",
    ),
    Operation(
        "get_service_stats",
        EmptyRequest,
        ServiceStats,
        Right.READ,
        "Count the services, their load and what they can take.",
    ),
    Operation(
        "dispatch",
        DispatchRequest,
        DispatchReply,
        Right.ACT,
        "Have the least loaded service do a request, and wait for its response.",
        idempotent=False,
    ),
    Operation(
        "take_request",
        TakeCallRequest,
        TakenCall,
        Right.ACT,
        "Take the next request of a service, to work on it.",
        idempotent=False,
    ),
    Operation(
        "renew_request",
        RenewCallRequest,
        ServiceCall,
        Right.ACT,
        "Keep a request that is still worked on.",
    ),
    Operation(
        "complete_request",
        CompleteCallRequest,
        ServiceCall,
        Right.ACT,
        "Give the response to a request.",
    ),
    Operation(
        "check_rate_limit",
        CheckRateLimitRequest,
        RateLimitReply,
        Right.ACT,
        "Take requests of a user's limits, or say when they fit.",
        idempotent=False,
    ),
    Operation(
        "get_system_status",
        EmptyRequest,
        SystemStatus,
        Right.READ,
        "Show the kernel as a whole.",
    ),
    Operation(
        "get_request_status",
        PidRequest,
        KernelRequestStatus,
        Right.READ,
        "Show a process with its envelope, its question and what it may still use.",
    ),
    Operation(
        "check_bounds",
        PidRequest,
        BoundsReply,
        Right.READ,
        "Show every bound of a process and its session, and which one ended it.",
    ),
    Operation(
        "get_remaining",
        PidRequest,
        RemainingBudget,
        Right.READ,
        "Show what a process may still use.",
    ),
    Operation(
        "forget_session",
        PidRequest,
        SessionRecord,
        Right.ACT,
        "Remove a session that has ended, with its envelope; its process may begin another.",
        idempotent=False,
    ),
)
