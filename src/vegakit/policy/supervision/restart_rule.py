"""When a supervisor restarts, whom, and how often: OTP's rules under the language's names.

| strategy     | in OTP       | a child that fails …                                             |
|--------------|--------------|------------------------------------------------------------------|
| restart      | one_for_one  | is started again                                                 |
| restart_all  | one_for_all  | … all are stopped, last first, and started, first first          |
| rest_for_one | rest_for_one | … so are those started after it, for pipelines a → b → c         |
| stop         | temporary    | is reported and forgotten, whatever its type                     |
| escalate     | intensity 0  | ends the supervisor, which its parent counts as one failure      |

| type      | ends normal or shutdown | ends abnormally | taken down by a sibling's failure |
|-----------|-------------------------|-----------------|-----------------------------------|
| permanent | counts, restarted       | the same        | started again                     |
| transient | stays down              | counts, started | started again, also when finished |
| temporary | forgotten               | forgotten       | forgotten                         |

Every attempt to restart counts one for the supervisor, however many children it takes along. A
start that fails is followed by another attempt; a child's first start is not an attempt. Counted
are those with `now - window ≤ at ≤ now`, both ends included: `max_restarts` of them are allowed,
one more gives up.
"""

from enum import StrEnum

from msgspec import Struct

from vegakit.errors import InvalidRuleError
from vegakit.policy.limits.backoff import Backoff
from vegakit.policy.supervision.exits import ExitReason

__all__ = ["ChildType", "RestartRule", "RestartStrategy"]


class RestartStrategy(StrEnum):
    RESTART = "restart"
    RESTART_ALL = "restart_all"
    REST_FOR_ONE = "rest_for_one"
    STOP = "stop"
    ESCALATE = "escalate"


class ChildType(StrEnum):
    PERMANENT = "permanent"
    TRANSIENT = "transient"
    TEMPORARY = "temporary"

    def needs_restart(self, reason: ExitReason) -> bool:
        return self is ChildType.PERMANENT or (self is ChildType.TRANSIENT and reason.is_abnormal)


class RestartRule(Struct, frozen=True, omit_defaults=True):
    strategy: RestartStrategy = RestartStrategy.RESTART
    max_restarts: int = 3
    window_ms: int = 60_000
    backoff: Backoff | None = None

    def __post_init__(self) -> None:
        if self.max_restarts < 0 or self.window_ms < 1:
            raise InvalidRuleError(
                "a supervisor needs max_restarts of at least 0 and a window of at least 1 ms;"
                f" got {self}"
            )
        if self.backoff is not None and self.allowed == 0:
            raise InvalidRuleError(
                f"a supervisor that never restarts cannot wait before it does; got {self};"
                " leave out the backoff, or allow restarts"
            )

    @property
    def allowed(self) -> int:
        never = (RestartStrategy.STOP, RestartStrategy.ESCALATE)
        return 0 if self.strategy in never else self.max_restarts

    def recent(self, restarts: tuple[int, ...], now: int) -> tuple[int, ...]:
        return tuple(at for at in restarts if at >= now - self.window_ms)

    def delay_ms(self, restarts: tuple[int, ...], now: int, draw: float) -> int:
        """Nothing without a backoff; else longer with each restart in the window."""
        if self.backoff is None:
            return 0
        return self.backoff.delay_ms(len(self.recent(restarts, now)), draw)
