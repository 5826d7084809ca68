"""`vega lsp`: what is wrong with a program, told to an editor while it is written."""

import argparse
from collections.abc import Sequence
from importlib.util import find_spec

from vegakit.errors import UserError

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    _parser().parse_args(words)
    if find_spec("pygls") is None:
        raise UserError("an editor is served with an extra; type: pip install 'vegakit[lsp]'")
    from vegakit.cli.programs.lsp_server import serve

    serve()
    return 0


def _parser() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog="vega lsp",
        description="A language server on stdin and stdout: set it as the server for .vega files.",
    )
