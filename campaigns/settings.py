"""`python -m campaigns.settings [--faults | word of a key …]`: every key of `vega.toml` acts.

The keys are those that the code declares. Each is changed in a home of its own, and what its rows
say must be seen from outside, through the installed wheel: one thing without the change, another
with it. Prints a line for each key (from, to, what was seen) and its figures last. Exits 1 when a
key has no row, or a change has no effect. With `--faults` each change is written where nobody
reads it, and it exits 1 if a row does not notice.
"""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import Figure, show
from msgspec import Struct, to_builtins

from campaigns.contract.stage import BrokenError, installed_wheel, stage
from campaigns.settings_calls import CALL_ROWS
from campaigns.settings_house import House, Row
from campaigns.settings_places import PLACE_ROWS
from vegakit.config import Key, toml_of
from vegakit.config.names import parse_name, setting_names
from vegakit.config.tables import Table, Tables

ROWS = (*CALL_ROWS, *PLACE_ROWS)
NOBODY_READS = "unread.toml"


class Seen(NamedTuple):
    """What a row saw; `problem` is empty if the setting had the effect that the row says."""

    row: Row
    effect: str
    problem: str = ""
    took_s: float = 0.0


def keys(tables: type[Table] = Tables) -> list[str]:
    """Return every key that the code declares; `*` stands for a name that the user chooses."""
    return [".".join(name) for name in setting_names(tables)]


def without_row(rows: Iterable[Row] = ROWS, tables: type[Table] = Tables) -> list[str]:
    """Return the keys that no row changes, and the rows whose key is not declared."""
    return sorted({row.key for row in rows} ^ {*keys(tables)})


def play(
    bin_folder: Path,
    row: Row,
    *,
    fault: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Seen:
    """Play a row without its change and with it, each in a house of its own."""
    began, seen = time.monotonic(), list[str]()
    try:
        for change in ("", row.change):
            with stage(bin_folder, House) as house:
                house.environment |= environment or {}
                house.settle_in(_merged(row.given, "" if fault else change))
                if fault:
                    house.write({NOBODY_READS: change})
                seen.append(row.scene(house))
        problem = _problem(row, *seen)
    except BrokenError as broken:
        problem = str(broken)
    return Seen(row, " → ".join(seen), problem, time.monotonic() - began)


def _merged(given: str, change: str) -> str:
    """Return the settings of both; where both say the same key, the change does."""
    named = change.partition(" = ")[0]
    kept = [line for line in given.splitlines() if line.partition(" = ")[0] != named]
    return "\n".join([*kept, change])


def _problem(row: Row, before: str, after: str) -> str:
    if before == after:
        return f"no effect: {before!r} with and without it"
    if before != row.before:
        return f"without it {row.before!r} was expected"
    return "" if after == row.after else f"with it {row.after!r} was expected"


def play_all(bin_folder: Path, rows: Sequence[Row], *, fault: bool = False) -> list[Seen]:
    """Play rows, two at a time, and print each as it ends."""

    def played(row: Row) -> Seen:
        seen = play(bin_folder, row, fault=fault)
        print(line_of(seen), flush=True)
        return seen

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(played, rows))


def line_of(seen: Seen) -> str:
    """Return a key, the change and the effect."""
    name, _, to = seen.row.change.partition(" = ")
    said = f"BROKEN: {seen.effect}: {seen.problem}" if seen.problem else seen.effect
    return f"{name}: {_default(seen.row, name)} → {to.strip()}: {said}"


def _default(row: Row, name: str) -> str:
    """Return what holds without the change."""
    for line in row.given.splitlines():
        given, _, value = line.partition(" = ")
        if given == name:
            return value
    value: Any = Tables()
    for word in parse_name(name):
        value = getattr(value, word, None) if isinstance(value, Struct) else value.get(word, {})
    if isinstance(value, Key):
        return "the usual variable"
    return "not written" if value in (None, (), {}) else toml_of(to_builtins(value))


def main(words: list[str]) -> int:
    fault = words == ["--faults"]
    wanted = [] if fault else words
    rows = [row for row in ROWS if not wanted or any(word in row.key for word in wanted)]
    with installed_wheel() as bin_folder:
        played = play_all(bin_folder, rows, fault=fault)
    broken, missing = [one for one in played if one.problem], without_row()
    for key in missing:
        print(f"{key}: BROKEN: no row says what it does")
    if fault:
        figures = [_all_of(len(played), len(broken), "changes that nobody read, noticed")]
    else:
        figures = [
            _all_of(len(keys()), len(keys()) - len(missing), "keys that have a row"),
            _all_of(len(played), len(played) - len(broken), "changes that have their effect"),
        ]
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


def _all_of(whole: int, part: int, name: str) -> Figure:
    return Figure(name, f"{part}", f"= {whole}", part == whole)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
