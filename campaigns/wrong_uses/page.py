"""What is said to a wrong use, without what differs from run to run; and what is wrong with it."""

import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from campaigns.wrong_uses.stage import Place, Stage, made
from campaigns.wrong_uses.table import SCRIPT, Wrong
from vegakit import errors

KEPT = Path(__file__).parents[2] / "tests" / "data" / "wrong_uses.txt"
COMMANDS = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True)
class Said:
    """A wrong use, its status, and the page of it: what was typed, what was said."""

    wrong: Wrong
    status: int
    text: str


def said(wrong: Wrong, stage: Stage) -> Said:
    """Make a wrong use."""
    status, text, here = made(wrong, stage)
    return as_said(wrong, status, text, here)


def as_said(wrong: Wrong, status: int, text: str, here: Place) -> Said:
    """Return the page of a wrong use that was made."""
    text = last_error(text) if wrong.script else text
    typed = f"python {SCRIPT}" if wrong.script else shlex.join(["vega", *wrong.words])
    page = f"$ {typed}\n{normal(text, here).strip()}\n[status {status}]\n"
    return Said(wrong, status, page)


def last_error(text: str) -> str:
    """Return what a program printed, and of its traceback the error alone: the lines above are of
    the user's own files and of ours, and change with every line of them."""
    printed, _, traced = text.partition(TRACEBACK)
    if not traced:
        return printed
    after = traced.rpartition(TRACEBACK)[2].strip("\n").splitlines()
    error = next(n for n, line in enumerate(after) if not line.startswith(" "))
    return "\n".join([*printed.splitlines(), "Traceback …", *after[error:]])


MASKS = (
    (re.compile(r"\b[0-9a-f]{32}\b"), "RUN"),
    (re.compile(r"\b[0-9a-f]{12}\b(?<!0123456789ab)"), "RUN"),
    (re.compile(r"(?<=  )\d+(?:\.\d+)? (?:ms|s)(?= · )"), "TOOK"),
    (re.compile(r"\b\d+(?= \(night\))"), "PID"),
    (re.compile(r"(?<=127\.0\.0\.1)(:|', )\d{4,5}\b"), r"\1PORT"),
)


def normal(text: str, here: Place) -> str:
    """Return a text without folders, ids, ports and times."""
    text = text.replace(f"{here.work}/", "").replace(str(here.home), "~")
    text = text.replace(str(here.folder), "FOLDER").replace(sys.executable, "python")
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text


# The file that is kept.


def page_of(found: Iterable[Said]) -> str:
    """Return what is kept: a page each, one after the other."""
    return "\n".join(f"=== {one.wrong.name}\n{one.text}" for one in found)


def pages(text: str) -> dict[str, str]:
    """Return the kept pages by name."""
    parts = re.split(r"^=== (.+)\n", text, flags=re.MULTILINE)[1:]
    return {
        name: page.rstrip("\n") + "\n" for name, page in zip(parts[::2], parts[1::2], strict=True)
    }


# What is wrong with a message, whatever it is about.


NEXT_STEP = re.compile(
    r"^  try: |did you mean|^\s+= help: |\b(?:write|type|give|name|choose|save|add|set|check|make|"
    r"correct|wait|run|start|raise|read|await|open|ask|takes|is one of|try|leave out|buil[dt])\b",
    re.MULTILINE,
)
"""Words by which a message says what to do next. A message without one leaves a stranger alone."""
OURS = {*errors.__all__, "AttributeError", "ImportError"}
"""Errors that a program may see; the last two are Python's own for a name that is not there."""
BRIEF = 900
"""How many characters a stranger reads."""


def documented() -> set[int]:
    """Return the statuses that the page on commands explains."""
    table = COMMANDS.read_text(encoding="utf-8").partition("## Exit status")[2]
    return {int(number) for number in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}


def faults(one: Said) -> Iterator[str]:
    """Yield what is wrong with what was said to a wrong use."""
    checks: Sequence[tuple[bool, str]] = (
        (one.status == one.wrong.status, f"its status is {one.status}, not {one.wrong.status}"),
        (one.status in documented() - {0}, f"status {one.status} is no documented failure"),
        (TRACEBACK not in one.text, "it shows a traceback"),
        (bool(NEXT_STEP.search(_told(one))), "it does not say what to do"),
        (len(_told(one)) <= BRIEF, f"it is longer than {BRIEF} characters"),
        (_is_named(one), f"it does not say {one.wrong.error or 'error or refused'}"),
    )
    for holds, fault in checks:
        if not holds:
            yield f"{one.wrong.name}: {fault}"


def _told(one: Said) -> str:
    """Return what was said, without what was typed and the status."""
    return "\n".join(one.text.splitlines()[1:-1])


def _is_named(one: Said) -> bool:
    """Whether the error is named: of a program its class, of a command the word that leads it."""
    if not one.wrong.script:
        return bool(re.search(r"^(error|refused)\b", _told(one), re.MULTILINE))
    named = re.compile(rf"^(vegakit\.errors\.)?{one.wrong.error}: ", re.MULTILINE)
    return one.wrong.error in OURS and bool(named.search(_told(one)))
