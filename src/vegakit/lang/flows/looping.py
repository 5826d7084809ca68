"""Loops: walked again until it is known what one round leaves to the next."""

from collections.abc import Callable

from vegakit.lang.flows.values import Frames, Place, Value, both, needing
from vegakit.lang.flows.walking import Walk
from vegakit.lang.tree import Build, For, Name, While, assigned_in, below

__all__ = ["plain_loop", "rounds"]

_MOST_PASSES = 50


def rounds(w: Walk, loop: int, node: For | While | Build, body: Callable[[], None]) -> None:
    """What it assigns may be there afterwards, or what was there before may still be. What was
    found when a loop around it was walked still holds, so that deep loops are walked seldom."""
    before, start = w.scopes.copy(), w.here
    left, carried = dict[Place, Value](), w.carried.get(loop, {})
    for _ in range(_MOST_PASSES):
        w.scopes.restore(before)
        w.scopes.join(carried)
        w.here = start
        was_decided, known = w.decides(loop), carried
        w.loops.append(loop)
        left = _one_round(w, node, body, before)
        w.loops.pop()
        carried = {place: value.a_round_ago(loop) for place, value in left.items()}
        if carried == known and w.decides(loop) == was_decided:
            break
    w.carried[loop] = carried
    w.scopes.restore(before)
    w.scopes.join({place: value.after(loop) for place, value in left.items()})
    if w.decides(loop):
        w.scopes.mark(assigned_in(node), needing(loop))
    w.to(left=start.left)
    body_steps = w.here.seen & ~start.seen
    w.facts.count(body_steps.bit_count() ** 2 // 50)
    w.notes.carry(loop, body_steps)


def _one_round(
    w: Walk, node: For | While | Build, body: Callable[[], None], before: Frames
) -> dict[Place, Value]:
    if isinstance(node, Build) or not w.places.leaves_in(node.body):
        body()
        return w.scopes.changed(before)
    with w.scopes.watch() as seen:
        body()
    return {place: value for place, value in seen.items() if _was_there(place, before)}


def _was_there(place: Place, before: Frames) -> bool:
    depth, name = place
    return depth < len(before) and name in before[depth]


def plain_loop(w: Walk, node: For | While) -> None:
    """One that only computes: what it assigns may come from anything that it reads."""
    read = [w.scopes.find(one.name) for one in below(node) if isinstance(one, Name)]
    w.scopes.mark(assigned_in(node), both(*read))
