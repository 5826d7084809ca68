"""`vega` and `vegakit`, one program."""

import argparse
import platform
from collections.abc import Sequence
from importlib.metadata import version

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="vega",
        description="Run agent programs under a contract: quoted before, capped during, "
        "nothing paid for is lost.",
    )
    parser.add_argument("--version", action="version", version=_version())
    parser.parse_args(argv)
    parser.print_help()
    return 0


def _version() -> str:
    return f"vega {version('vegakit')} (Python {platform.python_version()}, {platform.system()})"
