"""The command `vega` (edge, host): parses arguments and calls a package.

Commands are looked up in one table and imported when they are run, so that `vega --help` is quick.
"""

from vegakit.cli.main import COMMANDS, main

__all__ = ["COMMANDS", "main"]
