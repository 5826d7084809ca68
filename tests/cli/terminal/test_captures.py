"""The screens of the terminal as they are kept. To keep another look, type:
python -m campaigns.code_screens --write"""

import pytest
from campaigns.code_screens import FOLDER, SCENES, SIZES, CodeScene, captured, page_of, unspelled

from vegakit.cli.look import cells

ids = [scene.name for scene in SCENES]
COLOURS = ("{31}", "{32}", "{33}", "{36}")


@pytest.mark.parametrize("scene", SCENES, ids=ids)
async def test_a_screen_is_as_it_is_kept(scene: CodeScene) -> None:
    """In both sizes, dark, light and with NO_COLOR, which all say the same."""
    kept = (FOLDER / f"{scene.name}.txt").read_text(encoding="utf-8")
    assert await page_of(scene) == kept
    parts = dict(part.split("\n", 1) for part in kept.split("=== ")[1:])
    for width, height in SIZES:
        lines = parts[f"{width}x{height}"].splitlines()
        assert len(lines) == height
        assert all(cells(line) <= width for line in lines)
        assert not any(code in parts[f"{width}x{height}, NO_COLOR"] for code in COLOURS)


async def test_colour_changes_no_text() -> None:
    """NO_COLOR in the environment, and a light ground from the start, are the looks that are
    kept."""
    dark, _ = await captured(SCENES[1], SIZES[0])
    light, painted = await captured(SCENES[1], SIZES[0], light=True)
    plain, bare = await captured(SCENES[1], SIZES[0], colour=False)
    assert dark == light == plain
    assert "{32}" in painted or "{33}" in painted
    assert not any(code in bare for code in COLOURS)
    assert unspelled(bare).split() == dark.split()


async def test_ascii_is_ascii() -> None:
    text, _ = await captured(SCENES[1], SIZES[0], ascii_only=True)
    said = text.replace("─", "-")
    assert said.isascii(), [line for line in said.splitlines() if not line.isascii()]
