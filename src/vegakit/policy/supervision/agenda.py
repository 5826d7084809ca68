"""What a supervisor has still to do: steps that go one by one, and what is due at an instant."""

from msgspec import Struct, field

from vegakit.policy.supervision.child import Child, ChildState
from vegakit.policy.supervision.exits import ExitReason

__all__ = ["Due", "Plan"]


class Due(Struct, frozen=True, omit_defaults=True):
    """The deadline of a stop or, with the `cause` of a failure, the next attempt to restart."""

    at_ms: int
    cause: ExitReason | None = None


class Plan(Struct, omit_defaults=True):
    """Whom to stop and then to start; the next stands last, to be taken off cheaply."""

    stops: list[str] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)

    def next_stop(self, children: dict[str, Child]) -> str | None:
        return _next(self.stops, children, ChildState.DOWN)

    def next_start(self, children: dict[str, Child]) -> str | None:
        return _next(self.starts, children, ChildState.UP)


def _next(line: list[str], children: dict[str, Child], done: ChildState) -> str | None:
    while line:
        child = children.get(line[-1])
        if child is not None and child.state is not done:
            return line[-1]
        line.pop()
    return None
