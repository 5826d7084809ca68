"""`vega top`: the processes of a running runtime, live.

Apart from its screen, so that it can say that Textual is missing before anything imports it.
"""

from collections.abc import Sequence
from importlib.util import find_spec

from vegakit.cli.display import command_parser
from vegakit.config import has_light_background
from vegakit.control import connect
from vegakit.errors import UserError


def top_command(arguments: Sequence[str]) -> int:
    """Run `vega top`."""
    parser = command_parser("top", "Watch the processes of a running runtime; q leaves.")
    chosen = parser.parse_args(arguments)
    if find_spec("textual") is None:
        raise UserError(
            "this view is drawn by Textual, which is not installed; type: "
            "pip install 'vegakit[tui]', or look once with: vega ps"
        )
    from vegakit.cli.top_app import TopApp

    TopApp(connect(chosen.at), light=has_light_background()).run()
    return 0
