"""Every row of the kernel's table has its method, with the row's own request and reply."""

from collections.abc import AsyncGenerator
from typing import get_type_hints

from vegakit.control import (
    KERNEL_OPERATIONS,
    OPERATIONS,
    CreateProcessRequest,
    KernelProcess,
    PidRequest,
    ReplyShape,
)
from vegakit.kernel import TenantKernel


def disagreements(kernel: type) -> list[str]:
    found: list[str] = []
    for name, row in KERNEL_OPERATIONS.items():
        hints = get_type_hints(getattr(kernel, name, dict))
        reply = AsyncGenerator[row.reply] if row.shape is ReplyShape.STREAM else row.reply
        if hints != {"request": row.request, "return": reply}:
            found.append(name)
    return found


def test_table_and_kernel_agree() -> None:
    methods = {name for name in dir(TenantKernel) if not name.startswith("_")}
    assert methods == {*KERNEL_OPERATIONS}
    assert disagreements(TenantKernel) == []
    assert all(row.description.endswith(".") for row in KERNEL_OPERATIONS.values())
    assert not {*KERNEL_OPERATIONS} & {*OPERATIONS}, "a name means one operation"


class Other:
    async def submit(self, request: CreateProcessRequest) -> int:
        return len(request.pid)

    async def get_process(self, request: PidRequest) -> KernelProcess:
        raise NotImplementedError


def test_a_disagreement_is_seen() -> None:
    """Planted faults: methods that are missing, and one with another reply."""
    assert {*disagreements(Other)} == {*KERNEL_OPERATIONS} - {"get_process"}
