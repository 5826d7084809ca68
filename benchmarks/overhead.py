"""`python -m benchmarks.overhead`: what we add to a call, beside limits and other frameworks.

Prints one table and exits 1 when a figure falls short, or a framework that it names does not run.
`bash benchmarks/peers_setup.sh` installs the frameworks; `--without NAME` leaves one out.
"""

import argparse
import platform
import sys

from benchmarks.asks import ask_figures
from benchmarks.decisions import bare_call
from benchmarks.figures import show
from benchmarks.importing import import_figures
from benchmarks.timing import ns_per_step
from benchmarks.wire import PEERS, wire_figures

__all__ = ["main"]

QUIET_BARE_CALL_NS = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead")
    parser.add_argument("--without", action="append", default=[], choices=PEERS, metavar="NAME")
    without = set(parser.parse_args().without)
    bare_ns = ns_per_step(bare_call, 50)
    figures = [*ask_figures(), *import_figures(), *wire_figures(without)]
    print(
        f"Python {platform.python_version()}, {platform.machine()}; a bare function call took "
        f"{bare_ns:.0f} ns, {QUIET_BARE_CALL_NS} on a quiet machine\n"
    )
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
