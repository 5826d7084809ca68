"""`vega card`: the language on one page, to be put in front of a model."""

import argparse
from collections.abc import Sequence

from vegakit.lang import card

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="vega card",
        description="Print all that a model needs to write programs, in at most 2,000 tokens.",
    )
    parser.add_argument("--python", action="store_true", help="for programs written in Python")
    chosen = parser.parse_args(words)
    print(card("python" if chosen.python else "vega"), end="")
    return 0
