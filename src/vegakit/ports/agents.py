"""The port of agents: who runs one for a control plane that knows of models and tools only by name.

The kernel decides which agent of which process runs when, and with how much money; what implements
`AgentRunner` has the models, the tools and the gate. A run that fails is a result like any other:
what it had spent by then is spent.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from vegakit.conversation import Finish, Message
from vegakit.ids import TenantId
from vegakit.money import Money

if TYPE_CHECKING:  # only a kernel runs pipelines, and whoever imports a port need not wait for them
    from vegakit.policy import AgentDefinition, StageFailure


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One run of an agent, for a tenant and one of its processes; `pid` is empty if it is of none.

    `money` is all that the process may spend in its life, and `money_left` what it has left now, by
    what was reported; None is without limit. `calls` is the most model calls that this run may
    make, `timeout_ms` how long it may take. `tools` are those it may use of its own; None is all.
    `tenant_budget` is what was set for the tenant, as in "$5/day"; empty is the runner's own.
    `wallet` is the token whose calls may spend `wallet_cap` in all; empty if none limits this run.
    With `waits` it waits, for as long as it may take, for money that calls under way have reserved
    and may not use.
    """

    tenant: TenantId
    agent: str
    prompt: str
    definition: "AgentDefinition | None" = None
    history: tuple[Message, ...] = ()
    pid: str = ""
    money: Money | None = None
    money_left: Money | None = None
    calls: int | None = None
    timeout_ms: int | None = None
    tools: tuple[str, ...] | None = None
    tenant_budget: str = ""
    wallet: str = ""
    wallet_cap: Money | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The outcome of a run. With a `failure` there is no output, and `error` says why. Tokens of a
    run that failed are not known, its cost is. One that `was_cut` off was cancelled: it has
    nothing to report but what it cost."""

    text: str = ""
    output: Any = None
    finish: Finish | None = None
    llm_calls: int = 0
    tool_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: Money = Money(0)  # noqa: RUF009  (a whole number)
    duration_ms: int = 0
    failure: "StageFailure | None" = None
    error: str = ""
    was_cut: bool = False


@dataclass(frozen=True, slots=True)
class TenantSpending:
    """The budget that a runner holds a tenant to, what is spent of it in its period, and the
    largest call that it admits now; None where nothing limits it. The same of a wallet in it, if
    one was asked about."""

    budget: str
    spent: Money
    remaining: Money | None
    wallet_spent: Money | None = None
    wallet_remaining: Money | None = None


class AgentRunner(Protocol):
    """Runs agents by name, or as they are defined."""

    def problem(self, name: str, definition: "AgentDefinition | None") -> str:
        """Return why such an agent cannot be run here and what to write; empty if it can. Without
        a definition it has to be one that is known here."""
        ...

    def most_calls(
        self, name: str, definition: "AgentDefinition | None", tools: tuple[str, ...] | None
    ) -> int:
        """Return how many calls of a model a run of such an agent may make, with these of its tools
        or, if None, all."""
        ...

    def run(
        self, run: AgentRun, on_text: Callable[[str], object] | None = None
    ) -> Awaitable[AgentResult]:
        """Run an agent to its end, and tell its text as it comes. A run that is cancelled makes no
        further call, and still returns: what it had spent has to be counted."""
        ...

    def spending(
        self, tenant: TenantId, budget: str, wallet: str = "", wallet_cap: Money | None = None
    ) -> Awaitable[TenantSpending]:
        """Return how a tenant stands by the budget that was set for it; empty is the runner's. With
        a wallet, also how that stands."""
        ...
