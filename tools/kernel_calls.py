"""`python tools/kernel_calls.py [--write]`: the types of the methods of the kernel's client.

Prints the stub `src/vegakit/control/kernel_calls.pyi`, or writes it. The methods are made
from the table. The stub gives type checkers and editors each request and reply. A test compares the
file with this output, so run this again after you add a row to the table.
"""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from vegakit.control import KERNEL_OPERATIONS, Operation, ReplyShape

TARGET = Path(__file__).parents[1] / "src/vegakit/control/kernel_calls.pyi"
HEAD = """\
# Made from the table by `python tools/kernel_calls.py --write`; a test compares.
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import TypeVar

from msgspec import Struct

{imports}

_T = TypeVar("_T", bound=Struct)

class KernelCalls(ABC):
    @abstractmethod
    async def call(self, name: str, request: Struct, reply: type[_T]) -> _T: ...
    @abstractmethod
    def stream(self, name: str, request: Struct, reply: type[_T]) -> AsyncGenerator[_T]: ...
"""
ONE = """
    async def {name}(self, request: {request}) -> {reply}: ...
"""
STREAM = """
    def {name}(self, request: {request}) -> AsyncGenerator[{reply}]: ...
"""


def _imported_from(module: str) -> str:
    """Return the module itself in the room of the client, else the room."""
    own = "vegakit.control."
    return module if module.startswith(own) else ".".join(module.split(".")[:2])


def imports_of(rows: list[Operation[Any, Any]]) -> str:
    """Return the imports of all requests and replies, by module."""
    names: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for kind in (row.request, row.reply):
            names[_imported_from(kind.__module__)].add(kind.__name__)
    return "\n".join(
        f"from {module} import ({', '.join(sorted(names[module]))})" for module in sorted(names)
    )


def source() -> str:
    """Return the module as it should be."""
    rows = [*KERNEL_OPERATIONS.values()]
    methods = (
        (STREAM if row.shape is ReplyShape.STREAM else ONE).format(
            name=row.name,
            request=row.request.__name__,
            reply=row.reply.__name__,
        )
        for row in rows
    )
    text = HEAD.format(imports=imports_of(rows)) + "".join(methods)
    ruff = [sys.executable, "-m", "ruff"]
    name = ["--stdin-filename", str(TARGET)]
    for command in (
        [*ruff, "check", "--select", "I", "--fix", *name, "-"],
        [*ruff, "format", *name, "-"],
    ):
        text = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True, cwd=TARGET.parents[3]
        ).stdout
    return text


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        TARGET.write_text(source(), encoding="utf-8")
    else:
        print(source(), end="")
