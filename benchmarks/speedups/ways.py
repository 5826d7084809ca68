"""The ways a program is run, by name; and ways with a fault, to see that it is seen."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = ["HAND", "IN_TURN", "OURS", "PLANTED", "PROFILED", "WAYS", "Way"]


class Way(NamedTuple):
    """`module` of this folder opens the programs; `package` is the one whose version is told."""

    module: str
    package: str
    options: Mapping[str, Any] = MappingProxyType({})
    is_peer: bool = False


OURS, IN_TURN, HAND = "vega", "vega in turn", "asyncio"
WAYS = {
    OURS: Way("in_vega", "vegakit"),
    IN_TURN: Way("in_vega", "vegakit", {"window": 0}),
    HAND: Way("by_hand", "httpx2"),
    "langgraph": Way("in_langgraph", "langgraph", is_peer=True),
    "appl": Way("in_appl", "applang", is_peer=True),
}
PROFILED = Way("profiled", "vegakit")
PLANTED = {
    "idle": {OURS: WAYS[IN_TURN]},
    "twice": {OURS: Way("planted", "vegakit", {"sound": "in_vega", "fault": "twice"})},
    "words": {HAND: Way("planted", "httpx2", {"sound": "by_hand", "fault": "words"})},
    "result": {HAND: Way("planted", "httpx2", {"sound": "by_hand", "fault": "result"})},
}
"""Ways that stand in for those of `WAYS`: `--plant NAME` has to fall short."""
