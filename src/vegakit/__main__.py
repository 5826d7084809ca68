"""The commands `vega` and `vesper`; `python -m vegakit` is `vega` (edge).

Each handles Ctrl-C before it imports the command, since most of the start is imports.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal  # `signal` loads `enum`: until our handler is set, Ctrl-C is an error


def vega() -> int:
    """Run `vega`."""
    loaded = _take_interrupts()
    from vegakit.cli import main

    return main(on_loaded=loaded)


def vesper() -> int:
    """Run `vesper`, which is `vega node` by another name."""
    loaded = _take_interrupts()
    from vegakit.cli import main

    return main(["node", *sys.argv[1:]], on_loaded=loaded)


def _take_interrupts() -> "Callable[[], object]":
    """Have Ctrl-C exit the process silently. Return the call that restores the usual handler."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # a shell ignores SIGINT for `vega … &`
        signal.signal(signal.SIGINT, _end)
    return lambda: signal.signal(signal.SIGINT, handler)


def _end(*_: object) -> None:
    os._exit(128 + signal.SIGINT)


if __name__ == "__main__":
    sys.exit(vega())
