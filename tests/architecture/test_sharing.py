"""What the workers of a run share is made once."""

from pathlib import Path

import pytest

from tests.sharing import made_once


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VEGA_TESTS_SHARED", str(tmp_path))
    return tmp_path


def test_the_first_worker_makes_it_and_the_others_use_it(shared: Path) -> None:
    made: list[Path] = []
    assert {made_once("wheel", made.append) for _ in range(3)} == {shared / "wheel"}
    assert made == [shared / "wheel"]


def test_no_worker_uses_what_another_could_not_make(shared: Path) -> None:
    def fail(folder: Path) -> None:
        raise OSError(f"no room for {folder.name}")

    with pytest.raises(OSError, match="no room"):
        made_once("wheel", fail)
    with pytest.raises(AssertionError, match="no room for wheel"):
        made_once("wheel", fail)
