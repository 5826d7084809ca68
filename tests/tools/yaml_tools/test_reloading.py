from pathlib import Path

import pytest

from tests.tools.yaml_tools.stage import ECHO, written
from vegakit.tools.tool_files import ToolFile, ToolFileError


def test_a_changed_file_is_read_again_and_only_then(tmp_path: Path) -> None:
    """By content: a file may change within one tick of its clock, and keep its size."""
    file = written(tmp_path, ECHO)
    (said,) = file.load()
    assert not file.reload_if_changed()
    assert file.tools == (said,)
    written(tmp_path, ECHO.replace("name: say", "name: yas"))
    assert file.reload_if_changed()
    assert [tool.spec.name for tool in file.tools] == ["yas"]


def test_a_reload_that_fails_keeps_the_old_tools_and_is_told_once(tmp_path: Path) -> None:
    file = written(tmp_path, ECHO)
    before = file.load()
    two = ECHO + ECHO.removeprefix("tools:\n").replace("name: say", "nam: other")
    written(tmp_path, two)
    with pytest.raises(ToolFileError, match=r"tools.yaml:8: 'nam' is not known"):
        file.reload_if_changed()
    assert file.tools is before
    assert not file.reload_if_changed()
    written(tmp_path, two.replace("nam:", "name:"))
    assert file.reload_if_changed()
    assert len(file.tools) == 2


def test_a_reload_cannot_widen_the_grant(tmp_path: Path) -> None:
    file = written(tmp_path, ECHO)
    before = file.load()
    written(tmp_path, ECHO.replace('"process::exec"', '"process::exec", "db::drop"'))
    with pytest.raises(ToolFileError, match="for the whole file db::drop was asked"):
        file.reload_if_changed()
    assert file.tools is before


def test_a_file_that_is_gone_keeps_the_old_tools(tmp_path: Path) -> None:
    file = written(tmp_path, ECHO)
    before = file.load()
    (tmp_path / "tools.yaml").unlink()
    with pytest.raises(ToolFileError, match="there is no such file"):
        file.reload_if_changed()
    assert file.tools is before


def test_a_folder_or_a_device_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/zero")):
        with pytest.raises(ToolFileError, match="there is no such file"):
            ToolFile(path).load()
