"""`vega explain`: what a program may ask, call and touch."""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import to_builtins

from vegakit.cli.looking import one_line
from vegakit.cli.programs.sources import show
from vegakit.lang import Manifest, manifest_of
from vegakit.runtime import look_at

__all__ = ["render_manifest", "run"]

_TITLES = {
    "reads": "reads files",
    "writes": "writes files",
    "gets": "fetches from",
    "posts": "sends to",
    "commands": "runs commands",
    "servers": "uses servers",
    "unknown": "does what nobody here knows",
}


def run(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="vega explain", description="Show what a program may ask, call and touch."
    )
    parser.add_argument("file", type=Path, metavar="FILE.vega")
    parser.add_argument("--json", action="store_true", help="for machines")
    chosen = parser.parse_args(words)
    found = look_at(chosen.file)
    show(found)
    if not found.is_sound or found.checked is None:
        return 1
    manifest = manifest_of(found.checked)
    if chosen.json:
        print(json.dumps(to_builtins(manifest), indent=2))
    else:
        print(render_manifest(manifest, found.source.name))
    return 0


def render_manifest(manifest: Manifest, name: str) -> str:
    rows = list(_rows(manifest))
    if not rows:
        return f"{one_line(name)} asks no agent and touches nothing outside itself"
    width = max(len(title) for title, _ in rows)
    told = [f"  {title:{width}}  {one_line(text)}" for title, text in rows]
    return "\n".join([f"{one_line(name)} may do this and no more:", *told])


def _rows(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for agent in manifest.agents:
        tools = f", with {', '.join(agent.tools)}" if agent.tools else ""
        yield "asks", f"{agent.name} ({agent.model or 'the default model'}){tools}"
    for field, title in _TITLES.items():
        if named := getattr(manifest, field):
            yield title, ", ".join(named)
    if manifest.asks_people:
        yield "asks people", "yes"
