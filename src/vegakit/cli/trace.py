"""`vega trace`: show the last traced runs, or one run as a tree.

Apart from the other commands because it needs only settings and telemetry, and so starts
quickly.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vegakit.config import load, wants_colour
from vegakit.errors import SettingsError, UserError
from vegakit.telemetry import TracedRun, load_runs, render_runs, render_tree


def trace_command(arguments: Sequence[str]) -> int:
    """Run `vega trace`."""
    chosen = _parser().parse_args(arguments)
    path: Path = chosen.file or _settings_path()
    runs = _load(path, chosen.id)
    colour = wants_colour(sys.stdout)
    if chosen.id:
        print(render_tree(_only(runs, chosen.id, path).calls, colour=colour))
    else:
        print(render_runs(runs[-chosen.last :], colour=colour))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega trace", description="Show the last runs, or one run as a tree."
    )
    parser.add_argument("id", nargs="?", default="", help="the beginning of a run's id")
    parser.add_argument("--file", type=Path, help="a file of JSON lines; telemetry.jsonl if absent")
    parser.add_argument("--last", type=_count, default=20, metavar="N", help="how many runs; 20")
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a number from 1; got {text!r}")
    return int(text)


def _settings_path() -> Path:
    path = load().traces_path
    if path is None:
        raise SettingsError(
            'nothing is traced: telemetry.jsonl is ""; write a file\'s name there in vega.toml, '
            "or name a file: vega trace --file traces.jsonl"
        )
    return path


def _load(path: Path, wanted: str) -> list[TracedRun]:
    try:
        runs = load_runs(path, wanted)
    except FileNotFoundError:
        raise UserError(
            f"no run was traced yet: there is no {path}; run an agent first, "
            "or name another file: vega trace --file FILE"
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if not runs and not wanted:
        raise UserError(f"{path} holds no run yet; run an agent first")
    return runs


def _only(runs: Sequence[TracedRun], wanted: str, path: Path) -> TracedRun:
    exact = [found for found in runs if found.trace_id == wanted]
    if len(exact or runs) == 1:
        return (exact or runs)[0]
    if not runs:
        raise UserError(f"no run in {path} begins with {wanted!r}; to see them, type: vega trace")
    ids = ", ".join(found.trace_id[: len(wanted) + 8] for found in runs[-5:])
    raise UserError(f"{len(runs)} runs begin with {wanted!r}; type more of one of: {ids}")
