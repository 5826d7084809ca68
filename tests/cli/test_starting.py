"""Commands that only read programs begin at once: they load no runtime."""

import subprocess
import sys
from pathlib import Path

import pytest

LOADED = "import sys; from vegakit.cli.main import main; main(sys.argv[1:]); print(*sys.modules)"


@pytest.mark.parametrize("command", ["check", "fmt", "build", "disasm"])
def test_no_runtime_is_loaded(command: str, tmp_path: Path) -> None:
    """Nor a loop, nor a provider's library."""
    (tmp_path / "hello.vega").write_text('print("hello");\n')
    words = [sys.executable, "-c", LOADED, command, "hello.vega"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert "vegakit.lang" in loaded
    assert not loaded & {"asyncio", "pydantic", "vegakit.sdk.runtime", "vegakit.program"}


def test_ps_loads_no_machine(tmp_path: Path) -> None:
    """It asks a runtime over its socket, and needs only the records of its answers."""
    words = [sys.executable, "-c", LOADED, "ps", "--at", str(tmp_path / "none.sock")]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert "vegakit.control.client" in loaded
    assert not loaded & {"vegakit.program", "vegakit.vm", "vegakit.host", "vegakit.sdk.runtime"}


def test_ctrl_c_is_taken_before_anything_else_is_loaded() -> None:
    """Until then Python prints a traceback."""
    code = "import os, sys; old = {*sys.modules}; import vegakit.__main__ as _; "
    code += "print(*{*sys.modules} - old)"
    words = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += {sys.path!r}; {code}"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) == {"vegakit", "vegakit.lazy", "vegakit.__main__"}
