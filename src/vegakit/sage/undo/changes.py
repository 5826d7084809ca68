"""Changes of turns, as the store keeps them and as they are told.

Of a path that several changed within a turn, each has a step: what the person saved before a tool
wrote over it can be restored, and what they made of it since is known to be theirs.

| steps of a path, by           | what undo does                                       |
|-------------------------------|------------------------------------------------------|
| the turn                      | restores what was before                             |
| others, the turn              | restores what the others left, also if that is gone  |
| the turn, others              | leaves it, and names it                              |
| the turn, others, the turn    | restores what the others left, and names it          |
| the turn, others: as it was   | nothing: it came and went, as the guards of a sandbox |

What changed while only a command in the background ran counts as that of others.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import msgpack

from vegakit.errors import UserError
from vegakit.sage.undo.records import (
    FILE_TYPES,
    MOST_LISTED,
    Change,
    PathEntry,
    TurnChanges,
    UndoTurn,
    Unrestored,
)

OURS = ("turn", "command")
"""Whose a change is that a turn made: of a tool that named the path, or of a command."""
DOUBTFUL = {
    "shared": "a command of another session ran when it changed, so whose it is nobody knows",
    "job": "it changed while a command ran in the background, so it may be your own change",
}
"""Whose a change is that undo keeps although the turn may have made it, with what it says then."""
_UNPACK = msgpack.Decoder(PathEntry)


class ChangeTable:
    """The steps of all turns. It writes within the transaction of its caller."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def add(self, turn: int, rows: Mapping[bytes, tuple[Change, str]]) -> None:
        """Add changes of a turn. What one goes on to change is one step; of a step that a command
        had a part in nobody can tell whose it is."""
        for path, ((before, after), by) in rows.items():
            last = self._db.execute(
                "select step, by from change where turn=? and path=? order by step desc limit 1",
                (turn, path),
            ).fetchone()
            if last is not None and _is_one(last[1], by):
                whose = "command" if last[1] == "command" else by
                self._db.execute(
                    "update change set after=?, by=? where turn=? and path=? and step=?",
                    (pack(after), whose, turn, path, last[0]),
                )
            else:
                step = last[0] + 1 if last is not None else 0
                self._db.execute(
                    "insert into change values(?,?,?,?,?,?)",
                    (turn, path, step, pack(before), pack(after), by),
                )

    def names(self, turn: int) -> tuple[str, ...]:
        """Return the first paths that a turn changed, by name; what others did is not its own."""
        rows = self._db.execute(
            "select distinct path from change where turn=? and by in (?, ?) order by path limit ?",
            (turn, *OURS, MOST_LISTED),
        )
        return names_of(path for (path,) in rows.fetchall())

    def finish(self, turn: int) -> TurnChanges:
        """Forget what came and went in a turn, and return what it changed, by name."""
        steps: dict[bytes, list[tuple[bytes | None, bytes | None, str]]] = {}
        rows = self._db.execute(
            "select path, before, after, by from change where turn=? order by step", (turn,)
        )
        for path, *step in rows:
            steps.setdefault(path, []).append((step[0], step[1], step[2]))
        for path in [path for path, known in steps.items() if _came_and_went(known)]:
            del steps[path]
            self._db.execute("delete from change where turn=? and path=?", (turn, path))
        last = {path: known[-1] for path, known in steps.items()}
        return _told(
            turn,
            {path: ((unpack(one), unpack(two)), by) for path, (one, two, by) in last.items()},
        )


def _is_one(by: str, then: str) -> bool:
    return by == then or {by, then} <= {*OURS}


def _came_and_went(steps: list[tuple[bytes | None, bytes | None, str]]) -> bool:
    """Say whether a path is as it was, and nothing that others made is lost by it: a turn that puts
    back what was before them has taken theirs away."""
    is_as_before = steps[0][0] == steps[-1][1]
    is_maybe_ours = steps[0][2] in (*OURS, "job")
    return is_as_before and (len(steps) == 1 or (len(steps) == 2 and is_maybe_ours))


def _told(number: int, rows: dict[bytes, tuple[Change, str]]) -> TurnChanges:
    ours = {path: change for path, (change, by) in rows.items() if by in OURS}
    lost = {
        os.fsdecode(path): os.fsdecode(entry.digest)
        for path, change in ours.items()
        for entry in change
        if entry is not None and entry.kind == "x" and _is_lost(entry, change)
    }
    return TurnChanges(
        number,
        names_of(path for path, (before, _) in ours.items() if before is None),
        names_of(path for path, change in ours.items() if None not in change),
        names_of(path for path, (_, after) in ours.items() if after is None),
        names_of(path for path, (_, by) in rows.items() if by not in OURS),
        named(lost.items()),
        names_of(path for path, (_, by) in rows.items() if by == "job"),
    )


def _is_lost(entry: PathEntry, change: Change) -> bool:
    """Say whether what is not kept is missed: what a pipe or a socket was made over is not."""
    return entry is change[0] or entry.mode < FILE_TYPES


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


# Lists of turns.


def told_by(facts: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the key of a turn, and what of it lasts."""
    lasting: dict[str, str] = facts.get("lasting", {})
    return facts.get("key", ""), tuple(what for what in lasting.values() if what)


def once_each(turns: Iterable[UndoTurn]) -> Iterator[UndoTurn]:
    """Yield turns, of those with one key the first."""
    seen: set[str] = set()
    for turn in turns:
        if not turn.key or turn.key not in seen:
            seen.add(turn.key)
            yield turn


def chosen_turns(
    turns: Iterable[UndoTurn],
    count: int,
    to: int | None,
    among: Callable[[UndoTurn], bool] | None,
) -> list[int]:
    """Return the numbers of the turns that an undo takes back: the last that stand, or all after
    one; those of one key are one."""
    standing = [one for one in turns if one.state == "done" and (among is None or among(one))]
    if to is None:
        chosen = _last_turns(standing, count)
    else:
        last = [turn.key for turn in standing if turn.number == to]
        if to and not last:
            raise UserError(f"no turn {to} stands here; to see all, type: vega undo --list")
        chosen = [
            turn.number
            for turn in standing
            if turn.number > to and (not turn.key or turn.key not in last)
        ]
    if not chosen:
        whose = "no turn to undo here" if among is None else "no turn of this session to undo"
        raise UserError(f"there is {whose}; to see all, type: vega undo --list")
    return chosen


def check_redo(is_whole: bool, has_gone_on: bool) -> None:
    """Refuse to give an undo again that others are part of, or that the agent went on after."""
    if has_gone_on:
        raise UserError("there is nothing to redo: the agent went on since the undo")
    if not is_whole:
        raise UserError(
            "the last undo took back turns of other sessions, too; to give all of them again, "
            "type in a shell: vega undo --redo"
        )


def _last_turns(standing: Sequence[UndoTurn], count: int) -> list[int]:
    """Return the numbers of the last turns; those of one key count as one."""
    wanted = {turn.key or str(turn.number) for turn in islice(once_each(standing), count)}
    return [turn.number for turn in standing if (turn.key or str(turn.number)) in wanted]
