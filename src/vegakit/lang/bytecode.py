"""What the compiler makes and the machine runs: a module of functions and declarations.

All of it is JSON, so a module is stored, sent and hashed as it is. A site says where an effect
stands: its ordinal in the function and the registers that count the loops around it. A handler
covers the instructions from `start` up to `end`; the first row that fits is taken, so inner rows
come first.
"""

from typing import Any

from msgspec import Struct

from vegakit.lang.types import Type

__all__ = [
    "ANY_AGENT",
    "AgentSpec",
    "Function",
    "Handler",
    "Module",
    "Rights",
    "Site",
    "SupervisorSpec",
    "ToolSpec",
]


ANY_AGENT = "*"
"""In place of an agent's name: it may be any."""


class Site(Struct, frozen=True):
    ordinal: int
    loops: tuple[int, ...]
    line: int
    column: int


class Handler(Struct, frozen=True):
    """`kinds` is empty for all that can be caught. `scopes` is how many budget scopes of this call
    stay open."""

    start: int
    end: int
    target: int
    kinds: tuple[str, ...]
    reason: int
    scopes: int


class Rights(Struct, frozen=True, omit_defaults=True):
    """None of `paths`, `commands`, `hosts` means: not narrowed by the source."""

    capabilities: tuple[str, ...] = ()
    paths: tuple[str, ...] | None = None
    commands: tuple[str, ...] | None = None
    hosts: tuple[str, ...] | None = None


class Function(Struct, frozen=True):
    """`lines[i]` is the line of instruction i. The first registers are the parameters; `names` are
    theirs, or none at all."""

    name: str
    file: str
    params: tuple[Type, ...]
    result: Type
    registers: int
    code: tuple[tuple[Any, ...], ...]
    lines: tuple[int, ...]
    sites: tuple[Site, ...]
    handlers: tuple[Handler, ...]
    rights: int
    names: tuple[str, ...] = ()


class ToolSpec(Struct, frozen=True, omit_defaults=True):
    name: str
    function: int
    description: str
    params: tuple[tuple[str, Type], ...]
    result: Type
    rights: int
    repeatable: bool = False


class AgentSpec(Struct, frozen=True, omit_defaults=True):
    """As written: None is not written. Blocks are maps of their settings, names as strings, money
    in nano-dollars, durations in milliseconds."""

    name: str
    model: str
    system: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    max_steps: int | None = None
    budget: int | None = None
    period: str = ""
    on_exceed: str = ""
    memory: bool = False
    priority: str = ""
    timeout_ms: int | None = None
    retry: dict[str, Any] | None = None
    circuit_breaker: dict[str, Any] | None = None
    rate_limit: dict[str, Any] | None = None
    tools: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    yaml: tuple[str, ...] = ()


class SupervisorSpec(Struct, frozen=True):
    name: str
    strategy: str
    max_restarts: int
    window_ms: int
    children: tuple[str, ...]


class Module(Struct, frozen=True):
    """`main` is the index of the function to run. `files` are the sources' names and digests."""

    name: str
    main: int
    functions: tuple[Function, ...]
    constants: tuple[Any, ...]
    types: tuple[Type, ...]
    rights: tuple[Rights, ...]
    agents: tuple[AgentSpec, ...]
    tools: tuple[ToolSpec, ...]
    supervisors: tuple[SupervisorSpec, ...]
    mcp: tuple[str, ...]
    files: tuple[tuple[str, str], ...]
