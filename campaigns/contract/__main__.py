"""Prints the table: `python -m campaigns.contract [--faults] [word of a row or column …]`.

Exits 1 if a cell is broken or more than three are "no". With `--faults` each promise is played with
its fault instead, on a row in turn or on those of the words, and it exits 1 if a fault is not seen.
"""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from campaigns.contract.columns import COLUMNS, STORIES
from campaigns.contract.rows import ROWS, Row
from campaigns.contract.stage import BrokenError, installed_wheel, stage

NO = {
    ("Python agent", "quote before"): (
        "Python around an ask has no bound; each ask is priced before it is sent"
    ),
    ("coding session", "quote before"): (
        "a model decides how many calls a turn makes; each is priced before it is sent"
    ),
}
MOST_NO = 3


class Cell(NamedTuple):
    row: str
    column: str
    says: str
    holds: bool
    took_s: float = 0.0


def play(
    bin_folder: Path, row: Row, columns: Iterable[str], *, fault: bool = False
) -> Iterator[Cell]:
    """Play promises one after the other on one stage."""
    with stage(bin_folder) as made:
        for column in columns:
            if (row.name, column) in NO:
                yield Cell(row.name, column, f"no, because {NO[row.name, column]}", holds=True)
                continue
            began = time.monotonic()
            try:
                says, holds = COLUMNS[column](made, row, fault), True
            except BrokenError as broken:
                says, holds = f"BROKEN: {broken}", False
            yield Cell(row.name, column, says, holds, time.monotonic() - began)


def cells(bin_folder: Path, words: Iterable[str] = ()) -> list[Cell]:
    """Play the stories in which a row or a column has one of the words in its name, two at a
    time."""
    wanted = list(words) or [""]
    chosen = [
        (row, story)
        for story in STORIES
        for row in ROWS
        if any(word in f"{row.name} {' '.join(story)}" for word in wanted)
    ]
    return _two_at_a_time(bin_folder, chosen)


def planted(bin_folder: Path, words: Sequence[str] = ()) -> list[Cell]:
    """Play each promise with its fault, on the rows of `.vega` programs, pipelines and rollouts in
    turn: the judges are the same for all rows. Those with one of the words are played in full."""
    rows = [row for row in ROWS if any(word in row.name for word in words)]
    chosen = [(row, (column,)) for row in rows for column in COLUMNS]
    chosen = chosen or [(row, (at,)) for row, at in zip(cycle(ROWS[2:5]), COLUMNS, strict=False)]
    return _two_at_a_time(bin_folder, chosen, fault=True)


def _two_at_a_time(
    bin_folder: Path, chosen: Sequence[tuple[Row, Sequence[str]]], *, fault: bool = False
) -> list[Cell]:
    def played(one: tuple[Row, Sequence[str]]) -> list[Cell]:
        return list(play(bin_folder, *one, fault=fault))

    with ThreadPoolExecutor(2) as pool:
        return [cell for story in pool.map(played, chosen) for cell in story]


def table(played: Iterable[Cell]) -> str:
    """One line a promise, one column a way to write work."""
    found = {(cell.row, cell.column): cell for cell in played}
    rows = [row.name for row in ROWS if any(row.name == at[0] for at in found)]
    lines = [f"| | {' | '.join(rows)} |", "|---" * (len(rows) + 1) + "|"]
    for column in COLUMNS:
        shown = [found[row, column] for row in rows if (row, column) in found]
        if shown:
            said = (("ok: " if _is_kept(one) else "") + one.says for one in shown)
            lines.append(f"| {column} | {' | '.join(said)} |")
    return "\n".join(lines)


def _is_kept(cell: Cell) -> bool:
    return cell.holds and (cell.row, cell.column) not in NO


def main(words: list[str]) -> int:
    with installed_wheel() as bin_folder:
        if words[:1] == ["--faults"]:
            played = planted(bin_folder, words[1:])
            print(table(played))
            return int(any(cell.holds for cell in played))
        played = cells(bin_folder, words)
    for cell in played:
        print(f"{cell.took_s:5.1f} s  {cell.row} · {cell.column}", file=sys.stderr)
    print(table(played))
    kept, no = sum(map(_is_kept, played)), sum((cell.row, cell.column) in NO for cell in played)
    print(f"\n{kept} kept, {no} no, {sum(not cell.holds for cell in played)} broken")
    return int(no > MOST_NO or not all(cell.holds for cell in played))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
