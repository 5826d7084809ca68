"""What clients of a kernel saw, checked against one order of all that happened to a process.

A history is linearizable if its calls fit an order in which one comes after another, and none comes
before a call that was answered when it began. The kernel tells that order itself: by what a counter
left, and by the numbers of its events. So a check need not search for one.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Move", "Reply", "are_moves_linearizable", "is_linearizable"]


class Reply(NamedTuple):
    """One counter's call: when it was made and answered, and how many it left."""

    asked: float
    answered: float
    left: int


def is_linearizable(replies: Sequence[Reply]) -> bool:
    """Whether the replies of one process are those of a counter that takes one after another: no
    two left the same, and one that began after another was answered left less."""
    by_order = sorted(replies, key=lambda reply: -reply.left)
    if len({reply.left for reply in replies}) != len(replies):
        return False
    latest = 0.0
    for reply in by_order:
        if reply.answered < latest:
            return False
        latest = max(latest, reply.asked)
    return True


class Move(NamedTuple):
    """One call that moves a process: the number of the event that tells of it, None if it was
    refused."""

    asked: float
    answered: float
    to: str
    number: int | None


def are_moves_linearizable(
    moves: Sequence[Move],
    told: Sequence[tuple[int, str, str]],
    allowed: Mapping[str, Sequence[str]],
) -> bool:
    """Whether moves of one process fit its events (number, state before, state after): each begins
    in the state that the one before ended in, a move that was made is told once and in its time,
    and at some moment of a refused one it was not allowed."""
    if any(after != before for (_, _, after), (_, before, _) in pairwise(told)):
        return False
    made = [move for move in moves if move.number is not None]
    states = {number: after for number, _, after in told}
    if any(states.get(move.number or 0) != move.to for move in made):
        return False
    if not is_linearizable([Reply(one.asked, one.answered, -(one.number or 0)) for one in made]):
        return False
    return all(_could_be_refused(move, made, told, allowed) for move in moves if not move.number)


def _could_be_refused(
    refused: Move,
    made: Sequence[Move],
    told: Sequence[tuple[int, str, str]],
    allowed: Mapping[str, Sequence[str]],
) -> bool:
    """The states of its time: those after every move that was over when it began, up to the first
    that began when it was over."""
    first = max((move.number or 0 for move in made if move.answered < refused.asked), default=0)
    end = min((move.number or 0 for move in made if move.asked > refused.answered), default=None)
    seen = [after for number, _, after in told if number >= first and (not end or number < end)]
    if told and first < told[0][0]:
        seen.append(told[0][1])
    return any(refused.to not in allowed[state] for state in seen)
