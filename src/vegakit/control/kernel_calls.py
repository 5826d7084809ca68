"""The operations of the kernel as methods of a client, made from the table.

`python tools/kernel_calls.py --write` writes their types into the stub `kernel_calls.pyi`, where
type checkers and editors read each request and reply.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

from msgspec import Struct

from vegakit.control.kernel_operations import KERNEL_OPERATIONS
from vegakit.control.operations import Operation, ReplyShape

ReplyT = TypeVar("ReplyT", bound=Struct)


class KernelCalls(ABC):
    """The rows of `KERNEL_OPERATIONS`, as `kernel.TenantKernel` has them. A subclass carries the
    requests."""

    @abstractmethod
    async def call(self, name: str, request: Struct, reply: type[ReplyT]) -> ReplyT:
        """Carry out the operation of this name, and return its reply."""

    @abstractmethod
    def stream(self, name: str, request: Struct, reply: type[ReplyT]) -> AsyncGenerator[ReplyT]:
        """Begin the stream of this name, and yield its values."""


def _method(row: Operation[Any, Any]) -> Callable[..., Any]:
    """Return the method of a row, with its types and its line of documentation."""
    is_stream = row.shape is ReplyShape.STREAM

    def method(self: KernelCalls, request: Struct) -> Any:  # noqa: ANN401
        return (self.stream if is_stream else self.call)(row.name, request, row.reply)

    method.__name__ = row.name
    method.__qualname__ = f"KernelCalls.{row.name}"
    method.__doc__ = row.description
    reply = AsyncGenerator[row.reply] if is_stream else row.reply
    method.__annotations__ = {"request": row.request, "return": reply}
    return method


for _row in KERNEL_OPERATIONS.values():
    setattr(KernelCalls, _row.name, _method(_row))
