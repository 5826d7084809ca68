"""Files in messages of programs."""

from pathlib import Path

import pytest

from tests.runtime.compiled.test_bridge import written
from vegakit.conversation import Media, Text, UserMessage
from vegakit.errors import CapabilityDenied, ToolFailed
from vegakit.program.messages import parts_of
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime

PNG = b"\x89PNG\r\n\x1a\n\x00\x00"
TEXT = """
agent A {{ model m }}
fn main() -> str may [fs::read] allowed_paths ["pictures/**"] {{ return A <- {message}; }}
"""


async def sent(folder: Path, message: str) -> tuple[object, ...]:
    (folder / "pictures").mkdir()
    for name in ("pictures/a.png", "pictures/odd.qqq", "secret.png"):
        (folder / name).write_bytes(PNG)
    model = ScriptedModel("a cat")
    async with Runtime(models=lambda _: model) as rt:
        try:
            assert await rt.load(written(folder, TEXT.format(message=message))).main() == "a cat"
        finally:
            assert len(model.requests) <= 1
    last = model.requests[0].messages[-1]
    assert isinstance(last, UserMessage)
    return last.parts


@pytest.mark.parametrize("path", ["pictures/a.png", "/project/pictures/a.png"])
async def test_a_file_is_sent_by_its_content(tmp_path: Path, path: str) -> None:
    """Between the texts around it."""
    parts = await sent(tmp_path, f'["What is this?", file("{path}"), "Be brief."]')
    assert parts == (Text("What is this?"), Media("image/png", PNG), Text("Be brief."))


async def test_a_file_alone(tmp_path: Path) -> None:
    """It needs no list."""
    assert await sent(tmp_path, 'file("pictures/a.png")') == (Media("image/png", PNG),)


async def test_a_list_without_files_is_one_text(tmp_path: Path) -> None:
    """As before."""
    assert await sent(tmp_path, '["a", "b"]') == (Text('["a","b"]'),)


@pytest.mark.parametrize("path", ["secret.png", '{".."}/x.png', '{""}/etc/passwd.png'])
async def test_a_file_that_may_not_be_read_is_not_sent(tmp_path: Path, path: str) -> None:
    """The rights of the function hold; no model is asked."""
    with pytest.raises(CapabilityDenied):
        await sent(tmp_path, f'["What?", file("{path}")]')


async def test_a_file_of_no_known_kind(tmp_path: Path) -> None:
    """Nobody guesses what it is."""
    with pytest.raises(ToolFailed, match="name it like photo"):
        await sent(tmp_path, 'file("pictures/odd.qqq")')


@pytest.mark.parametrize("address", ["data:image/png;base64,!", "data:image/png;base64,A", "data:"])
def test_what_looks_like_a_file_that_was_read_is_text(address: str) -> None:
    """Hostile bytecode ends no runtime by it."""
    [part] = parts_of([{"$": "file", "of": address}])
    assert isinstance(part, Text)
