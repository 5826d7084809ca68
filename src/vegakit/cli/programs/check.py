"""`vega check`: all that is wrong with programs, before they run."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from vegakit.cli.programs.sources import programs_at, show
from vegakit.lang import as_json
from vegakit.runtime import Looked, look_at

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    chosen = _parser().parse_args(words)
    found = [look_at(path) for path in programs_at(chosen.files)]
    if chosen.json:
        rows = [row for one in found for row in as_json(one.diagnostics, one.source.texts)]
        print(json.dumps(rows, indent=2))
    else:
        for one in found:
            _tell(one)
    return 0 if all(one.is_sound for one in found) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega check",
        description="Find all that is wrong with programs before they run: names, types, rights.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE|FOLDER")
    parser.add_argument("--json", action="store_true", help="for machines, with suggested edits")
    return parser


def _tell(one: Looked) -> None:
    show(one)
    if one.is_sound and one.checked is not None:
        lines = sum(unit.text.count("\n") + 1 for unit in one.checked.units.values())
        warned = f", {len(one.diagnostics)} to look at" if one.diagnostics else ""
        print(f"{one.source.name}: {lines} lines are in order{warned}")
