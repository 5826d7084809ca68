"""Files of tools, and a sandbox that writes down what it was asked to run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.tools.sandbox.stage import Refusing
from vegakit.policy import Grant
from vegakit.ports import CommandResult
from vegakit.tools import ToolFile
from vegakit.tools.tool_files import ToolFileError

REAL = Path(__file__).parents[2] / "data/tools.yaml"
GRANT = Grant(
    ("process::exec", "net", "fs::read"),
    commands=("grep **", "echo **"),
    hosts=("api.example.com",),
    paths=("**",),
)
ECHO = """\
tools:
  - name: say
    description: Say it.
    parameters:
      word: {type: string}
    command: [echo, "{word}"]
    capabilities: ["process::exec"]
"""


class Recorder(Refusing):
    name = "recorder"

    def __init__(self) -> None:
        self.ran: list[tuple[str, ...]] = []

    async def run(
        self, argv: Sequence[str], *, owner: str, said: bytes = b"", on_output: object = None
    ) -> CommandResult:
        self.ran.append(tuple(argv))
        return CommandResult(0, owner, "", 1)


def written(folder: Path, text: str | bytes, **given: Any) -> ToolFile:
    path = folder / "tools.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    usual: dict[str, Any] = {"grant": GRANT, "sandbox": Recorder()}
    return ToolFile(path, **(usual | given))


def refusal(folder: Path, text: str | bytes, **given: Any) -> str:
    """What is said of it, from the file's own name on."""
    with pytest.raises(ToolFileError) as told:
        written(folder, text, **given).load()
    return str(told.value).removeprefix(f"{folder}/")
