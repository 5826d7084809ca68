"""Draws the pictures of `vega explain` in the documents anew.

python tools/screens_explain.py
"""

import io
import re
from pathlib import Path

from rich.console import Console
from rich.text import Text

from vegakit.cli.drawing.svg import as_svg
from vegakit.cli.drawing.text import render_flows
from vegakit.cli.explain import render_manifest
from vegakit.cli.look import Look
from vegakit.lang import dataflow_of, manifest_of
from vegakit.sdk import check_source

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
DRAWN = ("debate", "newsletter", "review", "translate")
SHOWN = "newsletter"
WIDTH = 100
FONT_FROM_ELSEWHERE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def main() -> None:
    for name in DRAWN:
        checked = check_source(ROOT / "examples" / f"{name}.vega").checked
        assert checked is not None, name
        _write(f"explain-{name}", as_svg(dataflow_of(checked)))
    _write("explain", _screen())


def _screen() -> str:
    name = f"{SHOWN}.vega"
    checked = check_source(ROOT / "examples" / name).checked
    assert checked is not None
    tree = render_flows(dataflow_of(checked), name, Look(colour=True, width=WIDTH))
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"{tree}\n\n{render_manifest(manifest_of(checked), name)}"))
    drawn = console.export_svg(title=f"vega explain {name}", unique_id="vega-explain")
    return re.sub(r"[ \t]+\n", "\n", FONT_FROM_ELSEWHERE.sub("", drawn))


def _write(name: str, drawn: str) -> None:
    path = IMAGES / f"{name}.svg"
    path.write_text(drawn, encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
