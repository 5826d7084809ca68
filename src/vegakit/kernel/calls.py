"""Every call of a tenant has this in common: who asks, and one transaction or one look."""

import secrets
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from vegakit.ids import TenantId, new_program_id
from vegakit.kernel.kernel import Kernel
from vegakit.kernel.tables import KernelTables

T = TypeVar("T")


class KernelCaller(NamedTuple):
    """Says who asks, as a door has authenticated it."""

    tenant: TenantId
    user: str


class Calls:
    """The calls of one caller on a kernel. Operations of one subject are a class of these."""

    def __init__(self, kernel: Kernel, caller: KernelCaller) -> None:
        self._kernel, self._caller = kernel, caller

    def _new_id(self) -> str:
        return new_program_id(self._kernel.clock.now(), secrets.token_bytes(10))

    def _do(self, decide: Callable[[KernelTables], T]) -> Awaitable[T]:
        return self._kernel.transact(self._caller.tenant, decide)

    def _see(self, look: Callable[[KernelTables], T]) -> Awaitable[T]:
        return self._kernel.read(self._caller.tenant, look)
