"""`vega build`: a program as bytecode, in a file of its own."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from vegakit.cli.programs.sources import compiled_at
from vegakit.lang import to_vgb

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="vega build", description="Compile a program.")
    parser.add_argument("file", type=Path, metavar="FILE.vega")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.vgb")
    chosen = parser.parse_args(words)
    made = compiled_at(chosen.file)
    if made is None:
        return 1
    output: Path = chosen.output or chosen.file.with_suffix(".vgb")
    output.write_bytes(to_vgb(made[0]))
    print(f"{output}: {output.stat().st_size:,} bytes; run it with: vega run {output}")
    return 0
