"""The comparison in the README shows figures of the benchmarks, and our worst ones."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from tools import benchmarks_page  # pyright: ignore[reportAttributeAccessIssue]

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\(docs/benchmarks\.md#([\w-]+)")
SECTIONS = {
    re.sub(r"[^\w -]", "", section.title.lower()).replace(" ", "-"): section
    for section in benchmarks_page.results().values()
}
FIGURE = re.compile(r"\d+(?:\.\d+)?")


class Comparison(NamedTuple):
    """A row of the README's table. `worst` is the cell of our worst figure."""

    measured: str
    ours: str
    worst: str
    others: str
    link: str


Tables: TypeAlias = list[list[list[str]]]
"""Rows of cells by table, the head first."""


def comparisons(readme: str) -> list[Comparison]:
    section = readme.partition("## Compared with other tools")[2].partition("\n## ")[0]
    return [Comparison(*cells) for cells in tables(section)[0][1:]]


def tables(text: str) -> Tables:
    """Return the tables of a page."""
    found: Tables = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = [row.strip("|").split("|") for row in block.splitlines()]
        found.append([[cell.strip(" *") for cell in row] for row in rows if "---" not in row[0]])
    return found


def measured(anchor: str) -> Tables:
    """Return all rows of a section of the benchmarks, also those that its page leaves out."""
    return [
        [table.columns, *([cell.strip(" *") for cell in row.cells] for row in table.rows)]
        for table in SECTIONS[anchor].tables
    ]


# Our worst figure of a measure, as its section has it.


def cells_of(page: Tables, title: str, row: str = "") -> Iterator[str]:
    """Yield the cells below a title, of the rows that hold a word, in all tables of a section."""
    for head, *rows in page:
        if title in head:
            yield from (cells[head.index(title)] for cells in rows if row in " ".join(cells))


def largest(page: Tables, title: str, row: str = "") -> str:
    cells = cells_of(page, title, row)
    figures = [found[0] for cell in cells if (found := FIGURE.search(cell))]
    return max(figures, key=float)


def most_sent_again(page: Tables) -> str:
    answered = cells_of(page, "answered", "Vega")
    again = cells_of(page, "of these sent again", "Vega")
    sent, of = max(zip(again, answered, strict=True), key=lambda pair: int(pair[0]) / int(pair[1]))
    return f"{sent} of {of}"


WORST: dict[str, Callable[[Tables], str]] = {
    "paid for again": most_sent_again,
    "cap of $1": lambda page: largest(page, "billed", "Vega"),
    "with a journal": lambda page: largest(page, "with a journal"),
    '"at most"': lambda page: largest(page, "at most / real"),
}


def faults(readme: str) -> list[str]:
    """Return what the comparison shows that its sections do not, and what it leaves out."""
    rows, found = comparisons(readme), list[str]()
    found += [f"no row on {word}" for word in WORST if not any(word in one[0] for one in rows)]
    for row in rows:
        link = LINK.search(row.link)
        if link is None or link[1] not in SECTIONS:
            found.append(f"no section: {row.measured}")
            continue
        page = measured(link[1])
        titles = [table.title for table in SECTIONS[link[1]].tables]
        texts = [*titles, *(cell for table in page for row in table for cell in row)]
        known = {*FIGURE.findall(" ".join(texts))}
        shown = FIGURE.findall(f"{row.measured} {row.ours} {row.worst} {row.others}")
        found += [f"not in its section: {figure}" for figure in shown if figure not in known]
        worst = next((find(page) for word, find in WORST.items() if word in row.measured), "?")
        if not re.search(rf"(?<![\d.]){re.escape(worst)}(?![\d.])", row.worst):
            found.append(f"our worst is {worst}: {row.measured}")
    return found


def test_the_comparison_shows_the_figures_and_the_worst_row_of_its_sections() -> None:
    assert faults(README) == []


@pytest.mark.parametrize(
    ("shown", "instead", "fault"),
    [
        ("59 of 60", "0 of 60", "our worst is 59 of 60"),
        ("$0.97582", "$0.00", "our worst is 0.97582"),
        ("5361.2 ×", "21.6 ×", "our worst is 5361.2"),
        ("3.07 ms", "2.82 ms", "our worst is 3.07"),
        ("$3.5713", "$3.99", "not in its section: 3.99"),
        ("[caps](docs/benchmarks.md", "[caps](docs/how-to/", "no section: billed"),
        ("paid for again after", "lost after", "no row on paid for again"),
    ],
)
def test_a_kinder_comparison_is_found(shown: str, instead: str, fault: str) -> None:
    assert shown in README
    assert any(one.startswith(fault) for one in faults(README.replace(shown, instead)))
