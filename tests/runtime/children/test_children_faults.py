"""Each guarantee can fail: a launcher with one fault planted leaves something behind."""

import shutil
from pathlib import Path

import pytest

from tests.runtime.children.test_orphans import orphans_of_a_killed_runtime
from vegakit.child_process import children as launching

LEFT_AFTER_S = 3
FAULTS = [
    pytest.param("killing |= self._dismissed or", "killing |=", id="spares its tree"),
    pytest.param("prctl(SUBREAPER)", "pass", id="adopts nobody"),
]


def planted(tmp_path: Path, sound: str, faulty: str) -> Path:
    """A folder with a copy, in which the sound words stand nowhere."""
    copied = shutil.copytree(launching._PLACE / "launcher", tmp_path / "launcher")
    texts = {path: path.read_text() for path in copied.glob("*.py")}
    assert any(sound in text for text in texts.values())
    for path, text in texts.items():
        path.write_text(text.replace(sound, faulty))
    return tmp_path


@pytest.mark.parametrize(("sound", "faulty"), FAULTS)
def test_a_faulty_launcher_leaves_orphans(
    sound: str, faulty: str, tmp_path: Path, mark: str
) -> None:
    """The same look that finds none behind the sound one finds some here."""
    place = str(planted(tmp_path, sound, faulty))
    assert orphans_of_a_killed_runtime(mark, place, within_s=LEFT_AFTER_S) != []
