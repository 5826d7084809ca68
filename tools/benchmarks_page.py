"""Writes docs/benchmarks.md from benchmarks/results/*.json: `python tools/benchmarks_page.py`.

Each file is a section with its tables. A row that was measured or recorded apart from its table has
a date or a commit. `show` says which rows are on the page: all, none, the rows with these first
cells, the lowest, middle and highest row of some columns, or how many cells of each column begin
with a word. Rows that are not shown stay in the data.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
USUAL_MACHINE = "Python 3.11.7, 2 shared virtual cores"
NUMBER = re.compile(r"\d+(?:\.\d+)?")
HEAD = f"""# Benchmarks

We measured all figures ourselves, with test providers instead of models. No live provider has been
asked yet. The page contains the newest result of each row, the worst rows included. **Bold**
figures miss their limit.

Unless a table says otherwise, it was measured with {USUAL_MACHINE}.
Other work ran on most of these machines: compare ratios, counts and bytes, not seconds. The files
in [benchmarks/results](../benchmarks/results/) contain all rows, each with its date, commit and
command.
"""


class Row(Struct, forbid_unknown_fields=True):
    """The cells of a row, and its date and commit if they are not those of its table."""

    cells: list[str]
    date: str = ""
    commit: str = ""


class Choice(Struct, forbid_unknown_fields=True):
    """Rows by their first cells, by the extremes of columns, or counted by a first word."""

    rows: list[str] = []
    extremes: list[str] = []
    count: str = ""


class Table(Struct, forbid_unknown_fields=True):
    """Rows that one command printed, and the commit that recorded them."""

    title: str
    command: str
    date: str
    commit: str
    machine: str
    columns: list[str]
    show: Literal["all", "none"] | Choice
    rows: list[Row]


class Section(Struct, forbid_unknown_fields=True):
    """One subject. `limits` are sentences on what its tables do not show."""

    title: str
    limits: list[str]
    tables: list[Table]


def results() -> dict[str, Section]:
    """Return the sections by the name of their file."""
    files = sorted(RESULTS.glob("*.json"))
    return {path.stem: msgspec.json.decode(path.read_bytes(), type=Section) for path in files}


def page(sections: Mapping[str, Section]) -> str:
    """Return the page of all sections."""
    return HEAD + "".join(map(section_text, sections.values()))


def section_text(section: Section) -> str:
    """Return a section: its limits, then its tables."""
    limits = f"\n{' '.join(section.limits)}\n" if section.limits else ""
    return f"\n## {section.title}\n{limits}{''.join(map(table_text, section.tables))}"


def table_text(table: Table) -> str:
    """Return a table below a line with its title, command, date and machine."""
    columns, rows = shown(table)
    if not rows:
        return ""
    command = "" if table.command.startswith("see ") else f"`{table.command}`"
    machine = "" if table.machine == USUAL_MACHINE else table.machine
    lines = [columns, ["---"] * len(columns), *rows]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    facts = ", ".join(filter(None, [command, table.date, machine]))
    return f"\n**{table.title}** ({facts})\n\n{text}"


def shown(table: Table) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of a table that are on the page."""
    columns, rows = table.columns, [row.cells for row in table.rows]
    if not isinstance(table.show, Choice):
        return columns, rows if table.show == "all" else []
    if word := table.show.count:
        cells = [[row[place] for row in rows] for place in range(1, len(columns))]
        counts = [sum(cell.startswith(word) for cell in column) for column in cells]
        return columns, [[word, *(f"{count} of {len(rows)}" for count in counts)]]
    if names := table.show.rows:
        return columns, [row for row in rows if row[0] in names]
    return ["row", *columns], [row for name in table.show.extremes for row in ends(table, name)]


def ends(table: Table, name: str) -> list[list[str]]:
    """Return the lowest, the middle and the highest row by the first number in a column."""
    place = table.columns.index(name)
    rows = sorted((row.cells for row in table.rows), key=lambda row: number(row[place]))
    picked = {"lowest": rows[0], "middle": rows[len(rows) // 2], "highest": rows[-1]}
    return [[f"{end} {name}", *row] for end, row in picked.items()]


def number(cell: str) -> float:
    """Return the first number of a cell."""
    match = NUMBER.search(cell.replace(",", ""))
    return float(match[0]) if match else 0.0


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(results()), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
