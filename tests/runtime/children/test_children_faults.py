"""Each guarantee can fail: a launcher with one fault planted leaves something behind."""

from pathlib import Path

import pytest

from tests.runtime.children.test_orphans import orphans_of_a_killed_runtime
from vegakit.runtime.children import launching

FAULTS = [
    pytest.param("killing |= self._dismissed or", "killing |=", id="spares its tree"),
    pytest.param("_prctl(_SUBREAPER)", "pass", id="adopts nobody"),
]


def planted(tmp_path: Path, sound: str, faulty: str) -> Path:
    text = launching._SCRIPT.read_text()
    assert sound in text
    script = tmp_path / "launcher.py"
    script.write_text(text.replace(sound, faulty))
    return script


@pytest.mark.parametrize(("sound", "faulty"), FAULTS)
def test_a_faulty_launcher_leaves_orphans(
    sound: str, faulty: str, tmp_path: Path, mark: str
) -> None:
    """The same look that finds none behind the sound one finds some here."""
    assert orphans_of_a_killed_runtime(mark, str(planted(tmp_path, sound, faulty))) != []
