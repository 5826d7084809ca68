"""Which addresses anybody on the internet may reach, and so may a tool that is allowed a name.

All others (this machine, its network, its cloud's metadata) are reached only when a rule names the
address itself: who owns an allowed name decides to which address it leads.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

__all__ = ["Resolve", "as_host", "is_public", "look_up"]

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

_METADATA = (IPv4Network("192.0.0.0/24"), IPv4Network("168.63.129.16/32"))
"""Of clouds, at addresses that Python, or some version of it, takes for public."""

_UNICAST = IPv6Network("2000::/3")
_TRANSLATED = IPv6Network("64:ff9b::/96")


async def look_up(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(place[0]) for *_, place in found]


def is_public(address: str) -> bool:
    found = ip_address(address)
    if isinstance(found, IPv4Address):
        is_metadata = any(found in network for network in _METADATA)
        return found.is_global and not found.is_multicast and not is_metadata
    if found in _TRANSLATED:
        return is_public(str(IPv4Address(int(found) & 0xFFFF_FFFF)))
    tunnels = found.sixtofour is not None or found.teredo is not None
    return found in _UNICAST and found.is_global and not tunnels


def as_host(address: str) -> str:
    """As a rule for hosts spells it."""
    found = ip_address(address)
    return f"[{found.compressed}]" if isinstance(found, IPv6Address) else str(found)
