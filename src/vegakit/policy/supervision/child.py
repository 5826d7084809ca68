"""One child of a supervisor: what was declared for it, and which life it is in."""

from enum import StrEnum

from msgspec import Struct

from vegakit.errors import InvalidRuleError
from vegakit.policy.supervision.restart_rule import ChildType

__all__ = ["WHEN_IT_HAS_TO_GO", "Child", "ChildState"]


class ChildState(StrEnum):
    DOWN = "down"
    WAITING = "waiting"
    STARTING = "starting"
    UP = "up"
    LEAVING = "leaving"
    STOPPING = "stopping"


WHEN_IT_HAS_TO_GO = {
    ChildState.DOWN: ChildState.DOWN,
    ChildState.WAITING: ChildState.DOWN,
    ChildState.STARTING: ChildState.LEAVING,
    ChildState.UP: ChildState.LEAVING,
    ChildState.LEAVING: ChildState.LEAVING,
    ChildState.STOPPING: ChildState.STOPPING,
}


class Child(Struct, omit_defaults=True, gc=False):
    """`stop_within_ms` is None for a supervisor: cut short, it would leave orphans."""

    type: ChildType = ChildType.TRANSIENT
    stop_within_ms: int | None = 5_000
    generation: int = 0
    state: ChildState = ChildState.DOWN

    def __post_init__(self) -> None:
        if self.stop_within_ms is not None and self.stop_within_ms < 0:
            raise InvalidRuleError(
                f"a child has at least 0 ms to stop, or None for all the time; got {self}"
            )

    @property
    def is_alive(self) -> bool:
        return self.state is not ChildState.DOWN and self.state is not ChildState.WAITING
