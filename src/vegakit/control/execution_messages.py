"""Requests and replies of what the kernel's servers run themselves: agents and whole pipelines
(pure).

A pipeline that a server runs is a process with a session like any other, whose worker is whichever
server holds it. Its events are those of the kernel about that process, told by their meaning for
the pipeline and under the same numbers: a number is the cursor to go on from, at any server.
"""

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from vegakit.control.kernel_messages import (
    Count,
    ExecutionMetrics,
    JsonObject,
    Milliseconds,
    Name,
    OptionalName,
    PageSize,
)
from vegakit.money import Money
from vegakit.policy import AgentDefinition, PipelineDefinition, QuotaRule

Words: TypeAlias = Annotated[str, Meta(max_length=1_000_000)]


class ExecutePipelineRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A pipeline to run as the process `pid`. Whoever asks again, with `after` or without, gets the
    events of the one that runs; to go on reading, the pipeline may be left out. With `chunks` the
    text of agents is told as it comes."""

    pid: Name
    pipeline: PipelineDefinition | None = None
    input: Any = None
    quota: QuotaRule = QuotaRule()
    after: Count = 0
    chunks: bool = False
    idle_ms: Milliseconds = 86_400_000


class PipelineEventKind(StrEnum):
    """The kinds of what happens in a pipeline. The last two end it."""

    STAGE_STARTED = "stage_started"
    STAGE_COMPLETED = "stage_completed"
    STAGE_FAILED = "stage_failed"
    CHUNK = "chunk"
    INTERRUPT_CREATED = "interrupt_created"
    INTERRUPT_RESOLVED = "interrupt_resolved"
    BOUND_REACHED = "bound_reached"
    COMPLETED = "completed"
    TERMINATED = "terminated"


class PipelineEvent(Struct, frozen=True, omit_defaults=True):
    """Something that happened in a pipeline; `detail` are the fields of its kind. A stage that is
    started again has another task, and what was told of the one before is void."""

    kind: PipelineEventKind
    pid: str
    stage: str = ""
    task: str = ""
    detail: JsonObject = {}


class NumberedPipelineEvent(Struct, frozen=True, omit_defaults=True):
    """An event with its number, which is the cursor to go on from; `missed` is how many events of
    the tenant before it are no longer kept. Numbers rise, with gaps."""

    number: int
    at_ms: int
    event: PipelineEvent
    missed: int = 0

    @property
    def kind(self) -> str:
        """Return the kind of the event, as which a stream shows it."""
        return self.event.kind


class ExecuteAgentRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One agent, known to the server or defined here, and one message to it. What it uses is
    counted against the quota of the process `pid`, if one is named."""

    agent: Name
    prompt: Words
    definition: AgentDefinition | None = None
    pid: OptionalName = ""
    timeout_ms: Milliseconds | None = None


class MessageRole(StrEnum):
    """Says who said something in a conversation."""

    USER = "user"
    ASSISTANT = "assistant"


class SaidMessage(Struct, frozen=True, forbid_unknown_fields=True):
    """A message of a conversation, as text."""

    role: MessageRole
    text: Words


class InferenceRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One call of a model. `messages` are what was said before the prompt; without a prompt the
    last of them, of the user, is the prompt. What it uses is counted as for `execute_agent`."""

    model: Name
    prompt: Words = ""
    messages: Annotated[tuple[SaidMessage, ...], Meta(max_length=1_000)] = ()
    system: Words = ""
    max_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    budget: Annotated[str, Meta(max_length=40)] = ""
    pid: OptionalName = ""
    timeout_ms: Milliseconds | None = None


class AgentAnswer(Struct, frozen=True, omit_defaults=True):
    """The answer of an agent or a model, with what it used. With a `failure` there is none, and
    `error` says why; what was used by then is counted all the same."""

    text: str = ""
    output: Any = None
    finish: str = ""
    metrics: ExecutionMetrics = ExecutionMetrics()
    failure: str = ""
    error: str = ""


# Tenants and their budgets.


class ListTenantsRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`after` is `next` of the page before."""

    after: OptionalName = ""
    limit: PageSize = 100


class TenantRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The tenant that an operation is about."""

    tenant: Name


class SetTenantBudgetRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """`budget` is as in "$5/day" or "$20"; empty is what servers give every tenant."""

    tenant: Name
    budget: Annotated[str, Meta(max_length=40)]


class TenantRecord(Struct, frozen=True, omit_defaults=True):
    """A tenant that has had a token or a budget; `budget` is empty if nobody has set one."""

    tenant: str
    budget: str = ""
    set_by: str = ""
    set_ms: int | None = None


class TenantPage(Struct, frozen=True, omit_defaults=True):
    """A page of tenants by name; `next` is empty on the last page."""

    tenants: tuple[TenantRecord, ...]
    next: str = ""


class TenantBudget(Struct, frozen=True, omit_defaults=True):
    """Says what the agents that servers run for a tenant may spend. `budget` is the cap that holds,
    set by someone or given by this server to every tenant; empty is none. `spent` is in its period,
    `remaining` the largest call that is admitted now; without agents a server knows neither.
    `known` says that a token or a budget was made for this name before: else it may be misspelt.
    Who asks with a token that has a wallet is told what the `wallet` held, what is spent of it, and
    the largest call that it and the tenant's budget admit now."""

    tenant: str
    budget: str = ""
    is_set: bool = False
    spent: Money | None = None
    remaining: Money | None = None
    known: bool = False
    wallet: Money | None = None
    wallet_spent: Money | None = None
    wallet_remaining: Money | None = None
