"""`python tools/kernel_calls.py [--write]`: the kernel's table as methods of a client.

Prints `src/vegakit/control/kernel_calls.py`, or writes it. The methods are spelled out so that type
checkers and editors know each request and reply; a test compares the file with what is printed
here, so a new row of the table is one run of this.
"""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from vegakit.control import KERNEL_OPERATIONS, Operation, ReplyShape

TARGET = Path(__file__).parents[1] / "src/vegakit/control/kernel_calls.py"
HEAD = '''\
"""The operations of the kernel as methods of a client, each with its own request and reply.

Made from the table by `python tools/kernel_calls.py --write`; a test compares. How a request is
carried is for a subclass to say.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import TypeVar

from msgspec import Struct

{imports}

ReplyT = TypeVar("ReplyT", bound=Struct)


class KernelCalls(ABC):
    """The rows of `KERNEL_OPERATIONS`, as `kernel.TenantKernel` has them."""

    @abstractmethod
    async def call(self, name: str, request: Struct, reply: type[ReplyT]) -> ReplyT:
        """Carry out the operation of this name, and return its reply."""

    @abstractmethod
    def stream(self, name: str, request: Struct, reply: type[ReplyT]) -> AsyncGenerator[ReplyT]:
        """Begin the stream of this name, and yield what it tells."""
'''
ONE = '''
    async def {name}(self, request: {request}) -> {reply}:
        """{text}"""
        return await self.call("{name}", request, {reply})
'''
STREAM = '''
    def {name}(self, request: {request}) -> AsyncGenerator[{reply}]:
        """{text}"""
        return self.stream("{name}", request, {reply})
'''


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
            text=row.description,
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
