"""The addresses that a name leads to, looked up once, and those of them that a grant reaches."""

import socket
from collections.abc import Sequence

from vegakit.errors import CapabilityDenied, ErrorClass, Phase, WorldError
from vegakit.policy import Allowed, Fetch, Grant, decide
from vegakit.tools.confined.addresses import Resolve, as_host, is_public
from vegakit.tools.confined.messages import Target

__all__ = ["reachable"]


async def reachable(grant: Grant, target: Target, resolve: Resolve) -> Sequence[str]:
    found = await _found(target, resolve)
    passing = [address for address in found if _may_reach(grant, target, address)]
    if found and not passing:
        ending = "" if target.port == 443 else f":{target.port}"
        raise CapabilityDenied(
            f"{target.host} leads to {', '.join(found[:3])}, on this machine or its network; "
            f'add allowed_hosts ["{as_host(found[0])}{ending}"] if that is meant'
        )
    return passing


async def _found(target: Target, resolve: Resolve) -> Sequence[str]:
    literal = target.host.strip("[]")
    if ":" in literal or literal.replace(".", "").isdigit():
        return [literal]
    try:
        found = await resolve(target.host, target.port)
    except socket.gaierror as error:
        raise WorldError(
            f"{target.host} has no address: {error.strerror}",
            ErrorClass.CONNECTION,
            phase=Phase.NOTHING_SENT,
        ) from None
    return list(dict.fromkeys(found))


def _may_reach(grant: Grant, target: Target, address: str) -> bool:
    if is_public(address):
        return True
    itself = Fetch(target.method, as_host(address), target.port)
    return isinstance(decide(grant, itself), Allowed)
