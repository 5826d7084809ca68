"""What turns changed, as the store keeps it and as it is told."""

import os
from collections.abc import Iterable

from msgspec import msgpack

from vegakit.sage.undo.records import Change, PathEntry, TurnChanges, Unrestored

OURS = ("turn", "command")
"""Whose a change is that a turn made: of a tool that named the path, or of a command."""
_UNPACK = msgpack.Decoder(PathEntry)


def told(number: int, rows: dict[bytes, tuple[Change, str]]) -> TurnChanges:
    """Return what a turn changed, by name."""
    ours = {path: change for path, (change, by) in rows.items() if by in OURS}
    lost = {
        os.fsdecode(path): os.fsdecode(entry.digest)
        for path, change in ours.items()
        for entry in change
        if entry is not None and entry.kind == "x"
    }
    return TurnChanges(
        number,
        names_of(path for path, (before, _) in ours.items() if before is None),
        names_of(path for path, change in ours.items() if None not in change),
        names_of(path for path, (_, after) in ours.items() if after is None),
        names_of(path for path, (_, by) in rows.items() if by not in OURS),
        named(lost.items()),
    )


def names_of(paths: Iterable[bytes]) -> tuple[str, ...]:
    """Return paths as they are told, in order."""
    return tuple(sorted(map(os.fsdecode, paths)))


def shown(reasons: dict[bytes, str]) -> dict[str, str]:
    """Return reasons by the names of paths."""
    return {os.fsdecode(path): why for path, why in reasons.items()}


def named(reasons: Iterable[tuple[str, str]]) -> tuple[Unrestored, ...]:
    """Return paths with reasons, in order."""
    return tuple(Unrestored(path, why) for path, why in sorted(reasons))


def pack(entry: PathEntry | None) -> bytes | None:
    """Return an entry as it is kept."""
    return None if entry is None else msgpack.encode(entry)


def unpack(packed: bytes | None) -> PathEntry | None:
    """Return an entry that was kept."""
    return None if packed is None else _UNPACK.decode(packed)
