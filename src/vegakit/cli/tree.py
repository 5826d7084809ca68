"""`vega tree`: the processes of a running runtime, each below the one that started it."""

import sys
from collections.abc import Sequence

from vegakit.cli.looking import headings, terminal_width, verb_parser
from vegakit.cli.process_table import render_tree
from vegakit.config import wants_colour
from vegakit.runtime import connect

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    parser = verb_parser("tree", "Show the processes of a running runtime as a tree.")
    remote = connect(parser.parse_args(words).at).blocking
    runtime, views = remote.info(), remote.ps()
    print("\n".join(headings(runtime)))
    colour, width = wants_colour(sys.stdout), terminal_width(sys.stdout)
    if views:
        print(render_tree(views, runtime.now_ms, colour=colour, width=width))
    return 0
