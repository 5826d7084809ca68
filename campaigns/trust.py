"""`python -m campaigns.trust [full | word of a folder or command …]`: folders against commands.

One table: its rows are folders (campaigns/trust_folders.py), its columns command lines of the
installed wheel. A cell holds when nothing that a folder says is done (campaigns/trust_ground.py).
Without a word each folder meets one column, drawn by `SEED`; with `full` it meets all of them. Then
comes the day of a person who trusts what they work on (campaigns/trust_day.py). Prints each cell
that broke and the figures last, and exits 1 if one falls short.
"""

import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from benchmarks.figures import Figure, show

from campaigns.contract.stage import installed_wheel, stage
from campaigns.trust_day import MOST_QUESTIONS, play_day
from campaigns.trust_folders import BITES, COMMANDS, Bait, Folder, folders, place
from campaigns.trust_ground import ORDER, Ground, play

SEED = 42
HARMS = {
    "program": "programs of the folder that ran",
    "model": "changed models",
    "address": "changed addresses",
    "server": "changed servers",
    "budget": "raised budgets",
    "rights": "changed rights",
    "instruction": "changed instructions",
    "file": "files changed through links, or outside",
    "escape": "escape sequences",
    "end": "commands that did not end",
    "traceback": "tracebacks",
}


class Cell(NamedTuple):
    """A folder, a column, and each harm with the command line that did it."""

    folder: Folder
    command: str
    harms: list[tuple[str, str]]


def sample(seed: int = SEED) -> list[tuple[Folder, str]]:
    """Return each folder with one column; every column has its turn before one comes again."""
    draw = random.Random(seed)
    rows, columns = [*folders()], list[str]()
    draw.shuffle(rows)
    while len(columns) < len(rows):
        columns += draw.sample([*COMMANDS], len(COMMANDS))
    return [*zip(rows, columns, strict=False)]


def play_folder(
    bin_folder: Path, folder: Folder, commands: Iterable[str], *, trusted: bool = False
) -> Iterator[Cell]:
    """Make a folder, and play commands in it, one after the other."""
    with stage(bin_folder, Ground) as ground:
        ground.settle_in()
        place(ground, folder.bait, folder.way)
        if trusted:
            ground.environment["VEGA_TRUSTED_FOLDERS"] = str(ground.folder)
        for command in commands:
            lines = COMMANDS[command]
            yield Cell(folder, command, [(line, h) for line in lines for h in play(ground, line)])


class Fault(NamedTuple):
    """A command line, or a variable, that does a harm in a folder without any."""

    line: str
    variables: Mapping[str, str] = MappingProxyType({})


FAULTS = {
    "program": Fault("sh -c '<script>'"),
    "model": Fault("vega run --model anthropic:claude-sonnet-4-5 x.vega Step"),
    "address": Fault("bash -c 'exec 3<> /dev/tcp/${0/://}' <listener>"),
    "server": Fault("vega run x.vega Step", {"ANTHROPIC_API_KEY": "stolen"}),
    "budget": Fault("vega run x.vega Step", {"VEGA_BUDGET_DEFAULT": "$9"}),
    "rights": Fault("sh -c 'echo {} > <home>/.config/vega/trusted.json'"),
    "instruction": Fault(f"vega run x.vega '{ORDER}'"),
    "file": Fault("sh -c 'echo evil >> <home>/.bashrc'"),
    "escape": Fault("printf '\\033[2J'"),
    "end": Fault("sleep 600"),
    "traceback": Fault("sh -c 'echo \"Traceback (most recent call last):\" >&2'"),
}
"""Each harm is planted, to show that it is seen."""


def play_fault(bin_folder: Path, fault: Fault) -> list[str]:
    """Return the harms that are seen of a planted one."""
    with stage(bin_folder, Ground) as ground:
        ground.settle_in()
        place(ground, Bait("nothing", {}), "repository")
        ground.environment |= fault.variables
        ground.patience_s = 5.0 if fault is FAULTS["end"] else ground.patience_s
        return play(ground, fault.line)


def bites(bin_folder: Path, name: str) -> bool:
    """Whether a bait does harm in a folder that is trusted."""
    folder = next(row for row in folders() if str(row) == f"{name}, repository")
    return any(cell.harms for cell in play_folder(bin_folder, folder, [BITES[name]], trusted=True))


def _played(bin_folder: Path, full: bool, words: list[str]) -> list[Cell]:
    plan = [
        (folder, _columns(folder, [*COMMANDS] if full or words else [drawn], words))
        for folder, drawn in sample()
    ]

    def cells(row: tuple[Folder, list[str]]) -> list[Cell]:
        played = [*play_folder(bin_folder, *row)] if row[1] else []
        for cell in played:
            for line, harm in cell.harms:
                print(f"BROKEN {cell.folder}: {line}: {harm}", flush=True)
        return played

    with ThreadPoolExecutor(2) as pool:
        return [cell for played in pool.map(cells, plan) for cell in played]


def _columns(folder: Folder, columns: list[str], words: list[str]) -> list[str]:
    """Return the columns that the words choose for a folder; none if they name another."""
    chosen = [word for word in words if word in COMMANDS]
    is_named = all(word in str(folder) for word in words if word not in COMMANDS)
    return (chosen or columns) if is_named else []


def main(words: list[str]) -> int:
    full = words == ["full"]
    words = [] if full else words
    with installed_wheel() as bin_folder:
        cells = _played(bin_folder, full, words)
        figures = [*_figures(cells)]
        if not words:
            seen = [
                kind
                for kind, fault in FAULTS.items()
                if any(harm.startswith(kind) for harm in play_fault(bin_folder, fault))
            ]
            figures.append(_exactly("planted harms that are seen", len(seen), len(FAULTS)))
            biting = [bait for bait in BITES if bites(bin_folder, bait)]
            figures.append(_exactly("baits that bite once trusted", len(biting), len(BITES)))
            asked, asked_again = play_day(bin_folder), play_day(bin_folder, forgets=True)
            print(f"the good day asks at: {', '.join(asked) or 'nothing'}")
            name = "questions of a good day, and of one whose answers are forgotten"
            holds = len(asked) <= MOST_QUESTIONS < len(asked_again)
            limits = f"≤ {MOST_QUESTIONS}, > {MOST_QUESTIONS}"
            figures.append(Figure(name, f"{len(asked)}, {len(asked_again)}", limits, holds))
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


def _figures(cells: list[Cell]) -> Iterator[Figure]:
    yield Figure("hostile folders", f"{len({str(cell.folder) for cell in cells})}", "", True)
    yield Figure("commands", f"{len({cell.command for cell in cells})}", "", True)
    yield Figure("cells", f"{len(cells)}", "", True)
    counts = Counter(harm.partition(":")[0] for cell in cells for _, harm in cell.harms)
    for kind, name in HARMS.items():
        yield _exactly(name, counts[kind], 0)


def _exactly(name: str, value: int, wanted: int) -> Figure:
    return Figure(name, f"{value}", f"= {wanted}", value == wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
