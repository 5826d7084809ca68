"""Records, agents and supervisors as Python."""

from vegakit.lang.python.printing.context import Printer
from vegakit.lang.python.printing.expressions import money_text, put, quoted
from vegakit.lang.python.printing.settings import block_value, setting_value
from vegakit.lang.python.printing.types import annotation
from vegakit.lang.python.settings import BLOCKS
from vegakit.lang.tree import (
    AgentDecl,
    AgentField,
    Expr,
    Grants,
    MoneyLit,
    OptionalType,
    Setting,
    SupervisorDecl,
    ToolRef,
    TypeDecl,
)

__all__ = ["agent", "grants_of", "record", "supervisor"]

_WIDTH = 96
_ARGUMENTS = {block: argument for argument, block in BLOCKS.items()}


def record(p: Printer, decl: TypeDecl) -> None:
    name = p.fit(decl.name, decl)
    if decl.alias is not None:
        p.line(f"{name} = {annotation(p, decl.alias)}")
        return
    p.line(f"class {name}({p.uses('BaseModel', 'pydantic')}):")
    with p.indented():
        for field in decl.fields:
            default = " = None" if isinstance(field.type, OptionalType) else ""
            p.line(f"{p.fit(field.name, field)}: {annotation(p, field.type)}{default}")
        if not decl.fields:
            p.line("pass")


def agent(p: Printer, decl: AgentDecl) -> None:
    given = [_field(p, field, decl) for field in decl.fields]
    if decl.tools and not any(field.name == "tools" for field in decl.fields):
        given.append(f"tools=[{', '.join(p.fit(tool.name, tool) for tool in decl.tools)}]")
    _assigned(p, p.fit(decl.name, decl), "Agent", given)


def _assigned(p: Printer, name: str, kind: str, given: list[str]) -> None:
    p.uses(kind.partition(".")[0])
    made = f"{name} = {kind}({', '.join([quoted(name), *given])})"
    if len(made) <= _WIDTH:
        p.line(made)
        return
    p.line(f"{name} = {kind}(")
    with p.indented():
        for one in [quoted(name), *given]:
            p.line(f"{one},")
    p.line(")")


def _field(p: Printer, field: AgentField, decl: AgentDecl) -> str:
    value = field.value
    if field.name == "tools" and isinstance(value, tuple):
        own = [p.fit(tool.name, tool) for tool in decl.tools]
        refs = [_tool(p, ref) for ref in value if isinstance(ref, ToolRef)]
        return f"tools=[{', '.join([*own, *refs])}]"
    if isinstance(value, tuple):
        rows = tuple(row for row in value if isinstance(row, Setting))
        return f"{_ARGUMENTS[field.name]}={block_value(p, field.name, rows)}"
    return f"{field.name}={setting_value(p, value)}"


def _tool(p: Printer, ref: ToolRef) -> str:
    if ref.kind == "yaml":
        return f"{p.uses('vega')}.yaml({quoted(ref.name)})"
    return p.fit(ref.name, ref)


def supervisor(p: Printer, decl: SupervisorDecl) -> None:
    given = [f"{one.name}={setting_value(p, one.value)}" for one in decl.settings]
    children = ", ".join(p.fit(child.name, child) for child in decl.children)
    _assigned(p, p.fit(decl.name, decl), "vega.supervisor", [*given, f"children=[{children}]"])


def grants_of(p: Printer, grants: Grants | None, word: str, budget: Expr | None) -> str:
    given: list[str] = []
    if grants is not None:
        if grants.capabilities is not None:
            names = ", ".join(quoted(one.name) for one in grants.capabilities)
            given.append(f"{word}=[{names}]")
        for name, rows in (
            ("allowed_paths", grants.paths),
            ("allowed_commands", grants.commands),
            ("allowed_hosts", grants.hosts),
        ):
            if rows is not None:
                given.append(f"{name}=[{', '.join(put(p, row) for row in rows)}]")
    if budget is not None:
        amount = money_text(budget) if isinstance(budget, MoneyLit) else put(p, budget)
        given.append(f"budget={amount}")
    return ", ".join(given)
