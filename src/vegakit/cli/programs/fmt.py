"""`vega fmt`: programs in the one way they are written."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vegakit.cli.programs.sources import programs_at
from vegakit.errors import UserError
from vegakit.lang import format_source, parse, render

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    """A file that cannot be parsed is shown, and left as it is; the others are formatted."""
    chosen = _parser().parse_args(words)
    looked = [(path, _formatted(path, check=chosen.check)) for path in programs_at(chosen.files)]
    changed = [path for path, is_changed in looked if is_changed]
    if chosen.check and changed:
        print("\n".join(f"{path} is not formatted" for path in changed), file=sys.stderr)
        print(f"type: vega fmt {' '.join(map(str, changed))}", file=sys.stderr)
    faulty = any(is_changed is None for _, is_changed in looked)
    return 1 if faulty or (chosen.check and changed) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vega fmt", description="Format programs, in place.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE|FOLDER")
    parser.add_argument("--check", action="store_true", help="change nothing; say what would be")
    return parser


def _formatted(path: Path, *, check: bool) -> bool | None:
    """Whether it was not as it should be; None where that cannot be said."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    parsed = parse(text, str(path))
    if any(found.severity == "error" for found in parsed.diagnostics):
        print(render(parsed.diagnostics, {str(path): text}, sys.stderr.isatty()), file=sys.stderr)
        return None
    made = format_source(text)
    if made != text and not check:
        path.write_text(made, encoding="utf-8")
        print(f"formatted {path}")
    return made != text
