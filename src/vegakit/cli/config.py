"""`vega config`: the settings, where each came from, and which project files are trusted."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from vegakit.config import Row, config_schema, explain, load, trust, wants_colour

__all__ = ["run", "table"]

_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def run(words: Sequence[str]) -> int:
    chosen = _parser().parse_args(words)
    if chosen.action == "trust":
        path, names = trust(chosen.file)
        sets = f"it sets {', '.join(names) or 'nothing that needs it'}"
        does = "vega run and vega test load it" if path.suffix == ".py" else sets
        print(f"{path} is trusted as it is now; {does}")
    elif chosen.action == "schema":
        print(_json(config_schema()))
    elif chosen.json:
        print(_json(explain(load())))
    else:
        print(table(explain(load()), colour=wants_colour(sys.stdout)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega config", description="Show the settings and where each of them came from."
    )
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    actions = parser.add_subparsers(dest="action", metavar="[trust | schema]")
    trusting = actions.add_parser(
        "trust", help="trust a project's vega.toml, or a program in Python, as it is now"
    )
    trusting.add_argument("file", nargs="?", type=Path, help="the nearest one if not given")
    actions.add_parser("schema", help="print the JSON Schema of vega.toml")
    return parser


def table(rows: Sequence[Row], *, colour: bool = False) -> str:
    """What was set stands out; what holds by default is dim."""
    names = max(len(row.name) for row in rows)
    values = max(len(row.value) for row in rows)
    lines = [f"{r.name:{names}}  {r.value:{values}}  {r.source}" for r in rows]
    if not colour:
        return "\n".join(lines)
    return "\n".join(
        f"{_DIM if row.source == 'default' else _BOLD}{line}{_PLAIN}"
        for row, line in zip(rows, lines, strict=True)
    )


def _json(value: object) -> str:
    return json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False)
