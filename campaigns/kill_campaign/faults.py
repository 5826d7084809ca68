"""Faults that are planted in a command, so that the campaign can be seen to find them.

Each takes something out that the promises stand on, in the process it is called in.

| fault          | takes out                                                                  |
|----------------|----------------------------------------------------------------------------|
| no spool       | that a reply is written down the moment it arrives                         |
| place alone    | that a speculative call has another name than the call it stands in for    |

`slow store` is no fault but a condition: every transaction takes longer, so that a kill finds more
that is not committed. With the promises in place nothing may come of it.
"""

import time
from collections.abc import Callable
from typing import Any

__all__ = ["FAULTS", "plant"]

_SLOW_S = 0.15


def plant(name: str) -> None:
    FAULTS[name]()


def _no_spool() -> None:
    from vegakit.store import spool

    def append(self: Any, kept: Any) -> None:
        """As if it had been recorded already."""

    spool.Spool.append = append


def _slow_store() -> None:
    from vegakit.store.sqlite import connection as sqlite_thread

    thread: Any = sqlite_thread.SqliteThread
    carry_out = thread._carry_out  # noqa: SLF001

    def slowly(self: Any, batch: Any) -> Any:
        time.sleep(_SLOW_S)
        return carry_out(self, batch)

    thread._carry_out = slowly  # noqa: SLF001


def _place_alone() -> None:
    from vegakit import effects

    named = effects.key_of

    def key_of(path: Any, digest: Any) -> Any:
        return effects.place_of(named(path, digest)) + ".0"

    effects.key_of = key_of


FAULTS: dict[str, Callable[[], None]] = {
    "no spool": _no_spool,
    "place alone": _place_alone,
    "slow store": _slow_store,
}
