"""Forgetting: answers that no register can reach any more; and how much a state holds."""

from collections.abc import Iterator

from vegakit.vm.state import VmState
from vegakit.vm.values import Fields, Future, Items, StreamRef, Value, weight_of

__all__ = ["state_weight", "sweep"]

_HELD = frozenset({"send", "spawn", "stream"})
"""The others are forgotten when the instruction that asked goes on."""


def sweep(state: VmState) -> None:
    """Drops what is answered and unreachable, and sets when to look again."""
    reached = _reached(state)
    gone = [
        ticket
        for ticket, asked in state.asked.items()
        if asked.done and asked.kind in _HELD and ticket not in reached and not asked.early
    ]
    for ticket in gone:
        del state.asked[ticket]
    state.sweep_at = max(64, 2 * len(state.asked))


def _reached(state: VmState) -> set[str]:
    seen: set[int] = set()
    reached: set[str] = set()
    rest = [*_roots(state)]
    while rest:
        value = rest.pop()
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if (kind is Items or kind is Fields) and id(value) not in seen:
            seen.add(id(value))
            rest += value if kind is Items else value.values()
        elif kind is Future or kind is StreamRef:
            reached.add(value.ticket)
    return reached


def _roots(state: VmState) -> Iterator[Value]:
    for strand in state.strands.values():
        for frame in strand.frames:
            yield from frame.registers
    for group in state.groups.values():
        for member in group.members:
            yield from member.values or ()
    for asked in state.asked.values():
        yield asked.value


def state_weight(state: VmState) -> int:
    chunks = sum(len(chunk) for asked in state.asked.values() for chunk in asked.chunks)
    return chunks + sum(map(weight_of, _roots(state)))
