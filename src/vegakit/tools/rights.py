"""What a tool says of a call before it is made, for whoever permits and audits it.

A tool may have a method `rights(arguments) -> Rights`, an attribute `audit` and a method
`contents(arguments)`. One that has none of them may want anything of the world, and says nothing.
One with a true attribute `brings_text` gives a model text that others wrote.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from vegakit.ids import Digest
from vegakit.policy import Grant, Use, Wanted
from vegakit.ports import AuditLevel, Tool

__all__ = [
    "Rights",
    "audit_level",
    "brings_text",
    "contents_of",
    "current_effect",
    "declared",
    "rights_of",
]

current_effect: ContextVar[str] = ContextVar("vega_effect", default="")
"""The key of the tool call that is running; empty outside of one."""


class Rights(Struct, frozen=True):
    """`wanted` is None where nothing is declared; `grant` is what the tool may use at most."""

    wanted: tuple[Wanted, ...] | None = None
    grant: Grant = Grant()
    sandboxed: bool = False


def declared(grant: Grant) -> Rights:
    """Of a tool whose arguments do not tell what of its grant a call will use."""
    return Rights(tuple(map(Use, grant.capabilities)), grant)


def rights_of(tool: Tool, arguments: Mapping[str, Any]) -> Rights:
    tell: Callable[[Mapping[str, Any]], Rights] | None = getattr(tool, "rights", None)
    return Rights() if tell is None else tell(arguments)


def audit_level(tool: Tool) -> AuditLevel:
    return AuditLevel(getattr(tool, "audit", AuditLevel.BASIC))


def brings_text(tool: Tool) -> bool:
    """Whether what it says is marked as text that is not to be trusted, result or error. Tools of
    servers and commands mark what is not their own words themselves."""
    return bool(getattr(tool, "brings_text", False))


async def contents_of(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Digest]:
    """Digests of the files that it would run or send, by path."""
    tell: Callable[[Mapping[str, Any]], Awaitable[dict[str, Digest]]] | None
    tell = getattr(tool, "contents", None)
    return {} if tell is None else await tell(arguments)
