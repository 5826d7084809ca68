"""Draws the pictures of `vega ps`, `tree` and `top` in the documents: `just screens`.

They show the moment that the tests of these commands look at, so they differ only when what is
drawn differs.
"""

import asyncio
import re
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.cli.scene import NOW, RUNTIME, VIEWS, Painted
from vegakit.cli.display import headings, render_table, render_tree
from vegakit.cli.top_app import TopApp

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
WIDTH = 140
FONT_FROM_ELSEWHERE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
"""A picture in a page should fetch nothing."""
RANDOM_WORD = re.compile(r"terminal-\d+-")


def main() -> None:
    tree = [*headings(RUNTIME), render_tree(VIEWS, NOW, colour=True, width=WIDTH)]
    screens = {
        "ps": printed("vega ps", render_table(VIEWS, NOW, colour=True, width=WIDTH)),
        "tree": printed("vega tree", "\n".join(tree)),
        "top": asyncio.run(top()),
    }
    for name, drawn in screens.items():
        path = IMAGES / f"{name}.svg"
        plain = RANDOM_WORD.sub("terminal-", FONT_FROM_ELSEWHERE.sub("", drawn))
        path.write_text(re.sub(r"[ \t]+\n", "\n", plain), encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


def printed(title: str, text: str) -> str:
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text))
    return console.export_svg(title=title)


async def top() -> str:
    app = TopApp(Painted(), every_s=3600)
    async with app.run_test(size=(WIDTH, 30)) as pilot:
        await pilot.press("down")
        await pilot.pause()
        return app.export_screenshot(title="vega top")


if __name__ == "__main__":
    main()
