"""Random histories are the same whatever ran before: a fault that is rare is found each time."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings, strategies as st
from hypothesis.internal.conjecture import providers

from tests.conftest import READS_CONSTANTS

CONSTANTS = f"NUMBERS = {[number * 37 for number in range(5, 1_000)]}\n"
"""So many that they count beside those of all our modules."""


def drawn() -> list[int]:
    found: list[int] = []

    @settings(max_examples=300, phases=[Phase.generate])
    @given(st.integers())
    def look(number: int) -> None:
        found.append(number)

    look()
    return found


def load(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a test had imported one more of our modules."""
    path.write_text(CONSTANTS)
    spec = importlib.util.spec_from_file_location("one_more", path)
    assert spec is not None
    monkeypatch.setitem(sys.modules, "one_more", importlib.util.module_from_spec(spec))


def test_what_is_loaded_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    load(tmp_path / "one_more.py", monkeypatch)
    assert drawn() == before


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of it is remembered."""
    monkeypatch.setattr(providers, "_get_local_constants", READS_CONSTANTS)
    providers.CONSTANTS_CACHE.cache.clear()
    yield
    providers.CONSTANTS_CACHE.cache.clear()


@pytest.mark.usefixtures("reading")
def test_constants_that_are_read_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above can fail."""
    before = drawn()
    load(tmp_path / "one_more.py", monkeypatch)
    assert drawn() != before
