"""Writes docs/images/demo.svg: the last screen of `vega demo`, played anew.

python tools/screens_demo.py
"""

import asyncio
import io
import os
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from vegakit.cli.demo import play
from vegakit.cli.demo.screen import LineScreen
from vegakit.cli.look import Look

WIDTH = 100
TARGET = Path(__file__).parent.parent / "docs" / "images" / "demo.svg"
USUAL_PLACE = "~/.local/share/vega"
FONT = "font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace;"


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        os.environ["VEGA_DATA_DIR"] = place
        screen = io.StringIO()
        asyncio.run(play(LineScreen(screen, Look(colour=True, width=WIDTH)), 1.0))
        text = screen.getvalue().replace(place, USUAL_PLACE)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text.rstrip("\n")))
    TARGET.parent.mkdir(exist_ok=True)
    svg = console.export_svg(title="vega demo", unique_id="vega-demo")
    TARGET.write_text(_own_fonts(svg), encoding="utf-8")
    print(f"{TARGET.relative_to(TARGET.parents[2])} is written")


def _own_fonts(svg: str) -> str:
    """The reader's: a page should load nothing from elsewhere."""
    head, _, rest = svg.partition("@font-face")
    _, _, body = rest.rpartition("@font-face")
    _, _, body = body.partition("}")
    return (head + body).replace("font-family: Fira Code, monospace;", FONT)


if __name__ == "__main__":
    main()
