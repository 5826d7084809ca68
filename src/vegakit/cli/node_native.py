"""`vega node batch`, and the native path of the other actions.

`batch` runs a node over a file of inputs, a line each, and prints an outcome a line. By default it
starts on generated Python and goes over to native code when enough lines have come by.
"""

import argparse
import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from vegakit.cli.look import Sign, Tone, count, look_of
from vegakit.cli.main import Argument, add_action
from vegakit.contracts import NodeOutcome, NodeProgram, NodeValueError, Value, native_obstacle
from vegakit.errors import UserError
from vegakit.vesper import (
    NATIVE_AFTER,
    DirectPath,
    HotPath,
    NativePath,
    NodePath,
    PythonPath,
    load_node,
)

_AT_ONCE = 1_000


def native_path(node: NodeProgram, *, optimise: bool = True) -> NativePath:
    """Return a node as native code, or raise a `UserError` that says what keeps it out."""
    if obstacle := native_obstacle(node):
        raise UserError(
            f"{node.node_id} cannot be native: {obstacle}, and native code has numbers, booleans, "
            "enums, instants and records of them; use --path python"
        )
    return NativePath(node, optimise=optimise)


def native_legs(node: NodeProgram, *, optimise: bool = True) -> list[NodePath]:
    """Return the native path where the node can have one and LLVM is installed."""
    if importlib.util.find_spec("llvmlite") is None or native_obstacle(node):
        return []
    return [NativePath(node, optimise=optimise)]


def add_native_actions(actions: Any) -> None:  # noqa: ANN401
    """Add the actions of this module to those of `vega node`."""
    add_action(
        actions,
        "batch",
        _batch,
        "run a node over a file of inputs, a line each",
        [
            Argument("file", type=Path),
            Argument("rows", type=Path, metavar="ROWS.jsonl", help="inputs as JSON, a line each"),
            Argument(
                "--path",
                choices=["hot", "python", "direct", "native"],
                default="hot",
                help="which path answers; hot: python until it is called often, then native",
            ),
            Argument(
                "--native-after",
                type=int,
                default=NATIVE_AFTER,
                metavar="N",
                help=f"rows before the hot path compiles the node; {NATIVE_AFTER:,}",
            ),
        ],
    )


def _batch(chosen: argparse.Namespace) -> int:
    node = load_node(chosen.file).program
    if chosen.native_after < 1:
        raise UserError("--native-after is a number of rows, 1 or more")
    rows = _rows(node, chosen.rows)
    if chosen.path == "native":
        native = native_path(node)
        parts = iter(lambda: [*islice(rows, _AT_ONCE)], [])
        return _printed((each for part in parts for each in native.run_rows(part)), "native")
    hot = HotPath(node, chosen.native_after)
    paths: dict[str, NodePath] = {"hot": hot, "direct": DirectPath(node)}
    path = paths.get(chosen.path) or PythonPath(node)
    status = _printed((path.run(node.show_inputs(row)) for row in rows), chosen.path)
    if chosen.path == "hot":
        said = f"not native: {hot.why_python}" if hot.why_python else "native at the end"
        print("\n".join(look_of(sys.stderr).fold(said, "  ", "  ")), file=sys.stderr)
    return status


def _rows(node: NodeProgram, path: Path) -> Iterator[dict[str, Value]]:
    """Yield inputs, or raise what is wrong with the line. Numbers with a point stay texts."""
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _row(node, line, f"{path}:{number}")
    except (OSError, UnicodeError) as error:
        raise UserError(
            f"{path} cannot be read: {error}; give a file of JSON, a line each"
        ) from None


def _row(node: NodeProgram, line: str, where: str) -> dict[str, Value]:
    try:
        read = json.loads(line, parse_float=str)
        if not isinstance(read, dict):
            raise UserError(f"{where}: this is no object; write the inputs by name")
        return node.read_inputs(read)  # pyright: ignore[reportUnknownArgumentType]
    except NodeValueError as error:
        raise UserError(f"{where}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: this is no JSON: {error}; write an object a line") from None


def _printed(outcomes: Iterator[NodeOutcome], path: str) -> int:
    """Print an outcome a line, and how many there were of each kind."""
    seen: Counter[str] = Counter()
    for outcome in outcomes:
        seen[str(outcome.status)] += 1
        print(json.dumps({**to_builtins(outcome), "status": str(outcome.status)}))
    told = ", ".join(f"{number:,} {status}" for status, number in sorted(seen.items()))
    said = f"{count(sum(seen.values()), 'row')} on the path {path}" + (f": {told}" if told else "")
    look = look_of(sys.stderr)
    print("\n".join(look.marked(Sign.DONE, Tone.OK, said)), file=sys.stderr)
    return 0
