"""`vega ps`: what each process of a running runtime does."""

import sys
from collections.abc import Sequence

from msgspec import json

from vegakit.cli.looking import terminal_width, verb_parser
from vegakit.cli.process_table import render_table
from vegakit.config import wants_colour
from vegakit.runtime import connect

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    parser = verb_parser("ps", "Show what each process of a running runtime does.")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    chosen = parser.parse_args(words)
    remote = connect(chosen.at).blocking
    runtime, views = remote.info(), remote.ps()
    if chosen.json:
        print(json.format(json.encode({"runtime": runtime, "processes": views})).decode())
        return 0
    colour, width = wants_colour(sys.stdout), terminal_width(sys.stdout)
    print(render_table(views, runtime.now_ms, colour=colour, width=width))
    return 0
