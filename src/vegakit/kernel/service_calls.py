"""Services as one caller sees them: offered, found, asked, and worked for.

A service outside of a server pulls its requests (decision 22): what it holds is a lease in the
store and not a connection, so that any server may answer it, and any server may be killed.
"""

from vegakit.control import (
    CompleteCallRequest,
    DispatchReply,
    DispatchRequest,
    EmptyRequest,
    ListServicesRequest,
    RegisterServiceRequest,
    RenewCallRequest,
    ServiceCall,
    ServiceNameRequest,
    ServicePage,
    ServiceResponse,
    ServiceStats,
    ServiceView,
    TakeCallRequest,
    TakenCall,
    UpdateHealthRequest,
)
from vegakit.kernel import services
from vegakit.kernel.kernel import Calls
from vegakit.kernel.tables import CALL


class ServiceCalls(Calls):
    """The operations on services and their requests."""

    async def register_service(self, request: RegisterServiceRequest) -> ServiceView:
        """Offer a service, or say what is different now."""
        return await self._do(lambda it: services.register(it, request))

    async def unregister_service(self, request: ServiceNameRequest) -> ServiceView:
        """Take a service away; its requests go to others that can do them."""
        return await self._do(lambda it: services.unregister(it, request.name))

    async def update_health(self, request: UpdateHealthRequest) -> ServiceView:
        """Say how a service is, and that it lives."""
        return await self._do(lambda it: services.update_health(it, request))

    async def get_service(self, request: ServiceNameRequest) -> ServiceView:
        """Show a service, its load and its health."""
        return await self._see(lambda it: services.view(services.needed(it, request.name)))

    async def list_services(self, request: ListServicesRequest) -> ServicePage:
        """List services, of a type or with a capability, a page at a time."""
        return await self._see(lambda it: services.list_page(it, request))

    async def get_service_stats(self, request: EmptyRequest) -> ServiceStats:
        """Count the services, their load and what they can take."""
        return await self._see(services.stats)

    async def dispatch(self, request: DispatchRequest) -> DispatchReply:
        """Have the least loaded service do a request, and wait for its response."""
        kernel, tenant = self._kernel, self._caller.tenant
        key = request.id or self._new_id()
        call = await self._do(lambda it: services.place(it, request, key))
        while call.outcome is None:
            worked = not call.holder and await kernel.handlers.run(tenant, call)
            if not worked and kernel.clock.now() < call.deadline_ms:
                await kernel.wait_for_change(tenant, call.deadline_ms)
            if kernel.clock.now() >= call.deadline_ms:
                call = await self._do(lambda it: services.expire(it, key))
            else:
                call = await self._see(lambda it: it.need(CALL, key))
        return DispatchReply(
            call.id, call.service, call.outcome, call.response or ServiceResponse()
        )

    async def take_request(self, request: TakeCallRequest) -> TakenCall:
        """Take the next request of a service, to work on it."""
        kernel, tenant = self._kernel, self._caller.tenant
        deadline_ms = kernel.clock.now() + request.wait_ms
        while True:
            call = await self._do(lambda it: services.take(it, request))
            # Looking costs little, and a transaction is only made when there is something new.
            while call is None and not self._is_over(deadline_ms):
                await kernel.wait_for_change(tenant, deadline_ms)
                if await self._see(lambda it: services.has_work(it, request.service)):
                    break
            if call is not None or self._is_over(deadline_ms):
                return TakenCall(call)

    def _is_over(self, deadline_ms: int) -> bool:
        """Whether who waits for a request is answered that there is none."""
        return self._kernel.is_draining or self._kernel.clock.now() >= deadline_ms

    async def renew_request(self, request: RenewCallRequest) -> ServiceCall:
        """Keep a request that is still worked on."""
        return await self._do(lambda it: services.renew(it, request))

    async def complete_request(self, request: CompleteCallRequest) -> ServiceCall:
        """Give the response to a request."""
        return await self._do(lambda it: services.complete(it, request))
