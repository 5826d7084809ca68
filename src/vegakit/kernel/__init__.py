"""The control plane for many users and machines on a shared store (host): processes, questions to
people, sessions through pipelines, envelopes, services and events, by tenant."""

from vegakit.kernel.handlers import ServiceHandler
from vegakit.kernel.kernel import EventListener, Kernel, KernelCaller
from vegakit.kernel.tables import SERVERS, TENANT
from vegakit.kernel.tenant_kernel import TenantKernel

__all__ = [
    "SERVERS",
    "TENANT",
    "EventListener",
    "Kernel",
    "KernelCaller",
    "ServiceHandler",
    "TenantKernel",
]
