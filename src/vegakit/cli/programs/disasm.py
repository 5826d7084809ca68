"""`vega disasm`: the instructions of a program, for people."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from vegakit.cli.programs.sources import compiled_at
from vegakit.lang import disassemble

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="vega disasm", description="Show a program's bytecode.")
    parser.add_argument("file", type=Path, metavar="FILE")
    made = compiled_at(parser.parse_args(words).file)
    if made is None:
        return 1
    print(disassemble(made[0]))
    return 0
