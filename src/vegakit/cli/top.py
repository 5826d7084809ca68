"""`vega top`: the processes of a running runtime, live."""

from collections.abc import Sequence
from importlib.util import find_spec

from vegakit.cli.looking import verb_parser
from vegakit.errors import UserError
from vegakit.runtime import connect

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    parser = verb_parser("top", "Watch the processes of a running runtime; q leaves.")
    chosen = parser.parse_args(words)
    if find_spec("textual") is None:
        raise UserError(
            "this view is drawn by Textual, which is not installed; type: "
            "pip install 'vegakit[tui]', or look once with: vega ps"
        )
    from vegakit.cli.top_app import TopApp

    TopApp(connect(chosen.at)).run()
    return 0
