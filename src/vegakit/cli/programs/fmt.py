"""`vega fmt`: programs in the one way they are written, or in the other language."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vegakit.cli.programs.sources import programs_at, show
from vegakit.errors import UserError
from vegakit.lang import Diagnostic, format_source, parse, render, to_python, to_vega
from vegakit.runtime import look_at

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    """A file that cannot be parsed is shown, and left as it is; the others are formatted."""
    chosen = _parser().parse_args(words)
    if chosen.to is not None:
        return _translate(chosen.files, chosen.to)
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
    parser.add_argument(
        "--to", choices=("vega", "python"), help="print it in the other language; change nothing"
    )
    return parser


def _translate(paths: Sequence[Path], to: str) -> int:
    if len(paths) != 1:
        raise UserError(f"one file is printed at a time; type: vega fmt --to {to} {paths[0]}")
    [path] = paths
    wanted = ".py" if to == "vega" else ".vega"
    if path.suffix != wanted:
        raise UserError(
            f"{path} is not a {wanted} file, so it is not printed as {to}; "
            f"type: vega fmt --to {'python' if to == 'vega' else 'vega'} {path}"
        )
    if to == "vega":
        text = _read(path)
        return _printed(*to_vega(text, str(path)), str(path), text)
    found = look_at(path)
    if found.checked is None or not found.is_sound:
        show(found)
        return 1
    return _printed(*to_python(found.checked), found.source.name, found.text)


def _printed(made: str, found: Sequence[Diagnostic], name: str, text: str) -> int:
    if found:
        print(render(found, {name: text}, sys.stderr.isatty()), file=sys.stderr)
        return 1
    print(made, end="")
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def _formatted(path: Path, *, check: bool) -> bool | None:
    """Whether it was not as it should be; None where that cannot be said."""
    if path.suffix == ".py":
        raise UserError(f"{path} is Python, which ruff formats; type: ruff format {path}")
    text = _read(path)
    parsed = parse(text, str(path))
    if any(found.severity == "error" for found in parsed.diagnostics):
        print(render(parsed.diagnostics, {str(path): text}, sys.stderr.isatty()), file=sys.stderr)
        return None
    made = format_source(text)
    if made != text and not check:
        path.write_text(made, encoding="utf-8")
        print(f"formatted {path}")
    return made != text
