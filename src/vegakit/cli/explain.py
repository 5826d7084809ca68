"""`vega explain`: what a program does at once, what waits for what, and what it may touch."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import to_builtins

from vegakit.cli.compiler import checked_at, render_kept_python, show
from vegakit.cli.drawing.svg import as_svg
from vegakit.cli.drawing.text import as_dot, render_flows
from vegakit.cli.look import PIPE, Look, look_of, one_line, print_json
from vegakit.cli.main import Argument, CommandParser, declare
from vegakit.lang import DataflowGraph, Manifest, dataflow_of, manifest_of
from vegakit.sdk import CheckedSource
from vegakit.tools import write_output

_TITLES = {
    "reads": "reads files",
    "writes": "writes files",
    "gets": "fetches from",
    "posts": "sends to",
    "commands": "runs commands",
    "servers": "uses servers",
    "unknown": "does what nobody here knows",
}


def explain_command(arguments: Sequence[str]) -> int:
    """Run `vega explain`."""
    chosen = _parser().parse_args(arguments)
    found = checked_at(chosen.file)
    show(found)
    if not found.is_sound or found.checked is None:
        return 1
    flows, manifest = dataflow_of(found.checked), manifest_of(found.checked)
    if chosen.json:
        kept = {"python": found.python_functions}
        print_json(to_builtins(manifest) | kept | {"flows": to_builtins(flows)})
    elif chosen.dot:
        print(as_dot(flows))
    elif chosen.svg is not None:
        advice = "give --svg a file in a folder that is there"
        write_output(chosen.svg, as_svg(flows).encode(), advice)
        print(f"{one_line(str(chosen.svg))} is written")
    else:
        _print_all(flows, manifest, found, chosen.file)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega explain",
        description="Show what a program will do at once, what waits for what and why, and all "
        "that it may ask, call and touch. Needs no key and asks no model.",
        arguments=[Argument("file", type=Path, metavar="FILE.vega")],
    )
    way = parser.add_mutually_exclusive_group()
    declare(
        way,
        [
            Argument("--svg", type=Path, metavar="FILE.svg", help="draw it into this file"),
            Argument("--dot", action="store_true", help="for Graphviz"),
            Argument("--json", action="store_true", help="for machines"),
        ],
    )
    return parser


def _print_all(
    flows: Sequence[DataflowGraph], manifest: Manifest, found: CheckedSource, path: Path
) -> None:
    look, name = look_of(sys.stdout), found.source.name
    python = "\n".join(render_kept_python(found, path, look))
    subject = f"apart from its Python, {name}" if python else name
    # Nothing is claimed of a program that does all of its work in Python.
    is_shown = any(_rows(manifest)) or not python
    effects = render_manifest(manifest, subject, look) if is_shown else ""
    print("\n\n".join(filter(None, [render_flows(flows, name, look), python, effects])))


def render_manifest(manifest: Manifest, name: str, look: Look = PIPE) -> str:
    """Return what a program may touch, for people."""
    rows = list(_rows(manifest))
    if not rows:
        return f"{one_line(name)} asks no agent and touches nothing outside itself"
    width = max(len(title) for title, _ in rows)
    told = [
        line
        for title, text in rows
        for line in look.fold(one_line(text), " " * (width + 4), f"  {title:{width}}  ")
    ]
    return "\n".join([f"{one_line(name)} may do this and no more:", *told])


def _rows(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for agent in manifest.agents:
        tools = f", with {', '.join(agent.tools)}" if agent.tools else ""
        models = ", or else ".join((agent.model or "the default model", *agent.fallbacks))
        yield "asks", f"{agent.name} ({models}){tools}"
    for field, title in _TITLES.items():
        if named := getattr(manifest, field):
            yield title, ", ".join(named)
    if manifest.asks_people:
        yield "asks people", "yes"
