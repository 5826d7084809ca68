"""Agents, tools and supervisors as declared: plain records for whoever starts them."""

from collections.abc import Iterator
from typing import Any

import msgspec

from vegakit.lang.bytecode import AgentSpec, Function, SupervisorSpec, ToolSpec
from vegakit.lang.checked import Checked, Unit
from vegakit.lang.compiling.pools import literal
from vegakit.lang.compiling.settings import plain, settings_of
from vegakit.lang.tree import (
    AgentDecl,
    AgentField,
    FnDecl,
    MoneyLit,
    Setting,
    SupervisorDecl,
    ToolDecl,
    ToolRef,
)

__all__ = ["agent_of", "bodies_of", "supervisor_of", "tool_decls", "tool_of"]

DEFAULT_MODEL = "smart"
_WINDOW_MS, _MAX_RESTARTS = 60_000, 3


def tool_decls(checked: Checked, unit: Unit) -> Iterator[tuple[str, ToolDecl]]:
    """With their full names; a tool inside an agent is `Agent.tool`."""
    for decl in unit.source.decls:
        if isinstance(decl, ToolDecl):
            yield checked.full_names[id(decl)], decl
        elif isinstance(decl, AgentDecl):
            for tool in decl.tools:
                yield f"{checked.full_names[id(decl)]}.{tool.name}", tool


def bodies_of(checked: Checked) -> Iterator[tuple[str, tuple[Unit, FnDecl | ToolDecl]]]:
    """Functions and tools by their full names."""
    for unit in checked.units.values():
        for decl in unit.source.decls:
            if isinstance(decl, FnDecl):
                yield checked.full_names[id(decl)], (unit, decl)
        for name, tool in tool_decls(checked, unit):
            yield name, (unit, tool)


def tool_of(name: str, decl: ToolDecl, place: int, function: Function) -> ToolSpec:
    names = (param.name for param in decl.params)
    return ToolSpec(
        name,
        place,
        literal(decl.description),
        tuple(zip(names, function.params, strict=True)),
        function.result,
        function.rights,
        any(setting.name == "repeatable" for setting in decl.settings),
    )


def agent_of(decl: AgentDecl, checked: Checked) -> AgentSpec:
    full = checked.full_names[id(decl)]
    spec: dict[str, Any] = {"name": full, "model": DEFAULT_MODEL}
    for field in decl.fields:
        spec |= _field(field, checked)
    own = tuple(f"{full}.{tool.name}" for tool in decl.tools)
    return msgspec.convert(spec | {"tools": (*own, *spec.get("tools", ()))}, AgentSpec)


def _field(field: AgentField, checked: Checked) -> dict[str, Any]:
    match field.name, field.value:
        case "tools", tuple() as refs:
            return _tool_refs([ref for ref in refs if isinstance(ref, ToolRef)], checked)
        case name, tuple() as rows:
            return {name: settings_of(tuple(row for row in rows if isinstance(row, Setting)))}
        case "budget", MoneyLit(nanos=nanos, period=period):
            return {"budget": nanos, "period": period}
        case "memory", _:
            return {"memory": True}
        case "timeout", value:
            return {"timeout_ms": plain(value)}
        case "temperature", value:
            return {"temperature": float(plain(value))}
        case name, value:
            return {name: plain(value)}


def _tool_refs(refs: list[ToolRef], checked: Checked) -> dict[str, Any]:
    kinds: dict[str, list[str]] = {"tools": [], "mcp": [], "yaml": []}
    for ref in refs:
        kinds[ref.kind or "tools"].append(checked.full_names.get(id(ref), ref.name))
    return kinds


def supervisor_of(decl: SupervisorDecl, checked: Checked) -> SupervisorSpec:
    settings = settings_of(decl.settings)
    return SupervisorSpec(
        checked.full_names[id(decl)],
        settings.get("strategy", "restart"),
        settings.get("max_restarts", _MAX_RESTARTS),
        settings.get("window", _WINDOW_MS),
        tuple(checked.full_names[id(child)] for child in decl.children),
    )
