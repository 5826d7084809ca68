"""Looking ahead can never fail a program: whatever it meets, it stops looking."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from vegakit.lang import check_program, compile_program
from vegakit.program.speculation import Speculation
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, VegaProgram
from vegakit.vm import strict_lookahead
from vegakit.vm.lookahead import Lookahead
from vegakit.vm.values import bad

HELD = """
agent echo { model "any" }
fn main(items: int, sends: int) -> int {
    let held = str::split(str::repeat("0123456789,", items), ",");
    for i in range(sends) { let said = echo <- "{i}"; }
    return len(held);
}
"""
"""It holds a long list while it sends, and the look ahead comes to `len(held)`."""


async def ran(items: int, window: int) -> tuple[int, int]:
    """The result, and how many calls were made."""
    checked, found = check_program(HELD, "main.vega", lambda _path: None)
    assert checked is not None, found
    model = ScriptedModel(lambda _: "yes")
    async with Runtime("$100", models=lambda _: model, lookahead=window) as rt:
        result = await rt.run(VegaProgram(compile_program(checked), Path()), items, 3)
    return result, len(model.requests)


@pytest.fixture
def lenient() -> Iterator[None]:
    """As outside of tests, where a bug of the lookahead does not raise."""
    strict_lookahead(on=False)
    yield
    strict_lookahead(on=True)


@pytest.mark.parametrize("window", [0, 64])
async def test_a_list_of_50_000_items_is_no_obstacle(window: int) -> None:
    assert await ran(50_000, window) == (50_001, 3)


@pytest.mark.parametrize(
    "error", [RuntimeError("a bug"), RecursionError(), MemoryError(), bad("no such thing")]
)
@pytest.mark.parametrize(
    "part", [(Lookahead, "__init__"), (Lookahead, "walk"), (Speculation, "admits")]
)
@pytest.mark.usefixtures("lenient")
async def test_the_program_goes_on_whatever_the_lookahead_raises(
    monkeypatch: pytest.MonkeyPatch, error: Exception, part: tuple[type, str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(*part, fails)
    assert await ran(10, 64) == (11, 3)


@pytest.mark.usefixtures("lenient")
async def test_a_bug_of_the_lookahead_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: Lookahead) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Lookahead, "walk", fails)
    with caplog.at_level(logging.ERROR, logger="vegakit"):
        await ran(10, 64)
    assert "the program goes on in order" in caplog.text


async def test_a_bug_of_the_lookahead_is_not_hidden_from_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_: Lookahead) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Lookahead, "walk", fails)
    with pytest.raises(Exception, match="a bug"):
        await ran(10, 64)
