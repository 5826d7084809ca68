"""Kernels on a store in memory and on virtual time, for tests."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from vegakit.control import OperationError, RefusalCode
from vegakit.ids import TenantId
from vegakit.kernel import Kernel, KernelCaller, TenantKernel
from vegakit.ports import TenantStore
from vegakit.store import open_tenants
from vegakit.testing import FakeClock

__all__ = ["ANN", "BOB", "OTHER", "Bench", "listeners", "refused"]

ANN = KernelCaller(TenantId("acme"), "ann")
BOB = KernelCaller(TenantId("acme"), "bob")
OTHER = KernelCaller(TenantId("other"), "ann")


class Bench:
    """One store and one clock; every kernel that is asked for is a new server on them."""

    def __init__(self, store: TenantStore | None = None) -> None:
        self.store, self.clock = store or open_tenants(":memory:"), FakeClock()

    def kernel(self) -> Kernel:
        return Kernel(self.store, self.clock)

    def of(self, caller: KernelCaller = ANN) -> TenantKernel:
        return TenantKernel(self.kernel(), caller)


def listeners(kernel: Kernel, tenant: TenantId = ANN.tenant) -> int:
    """How many of a tenant wait at a kernel until something changes."""
    bus: Any = kernel.bus
    return len(bus._bells._by_place.get((tenant, ""), ()))


@contextmanager
def refused(
    code: RefusalCode, text: str | None = None
) -> Generator[pytest.ExceptionInfo[OperationError]]:
    with pytest.raises(OperationError, match=text) as caught:
        yield caught
    assert caught.value.code is code
