"""What a file declares: functions, tools, agents, supervisors, types, and what it uses."""

from typing import TypeAlias

from vegakit.lang.tree.code import (
    Block,
    Expr,
    Name,
    Node,
    Setting,
    Stmt,
    Text,
    TypeExpr,
)

__all__ = [
    "AgentDecl",
    "AgentField",
    "CapName",
    "Decl",
    "Field",
    "FnDecl",
    "Grants",
    "Param",
    "Source",
    "SupervisorDecl",
    "ToolDecl",
    "ToolRef",
    "TypeDecl",
    "UseFile",
    "UseMcp",
]


class Field(Node, frozen=True, gc=False):
    name: str
    type: TypeExpr


class TypeDecl(Node, frozen=True, gc=False):
    """A record, or with `alias` another name: `type Severity = "low" | "high"`."""

    name: str
    fields: tuple[Field, ...]
    alias: TypeExpr | None = None


class Param(Node, frozen=True, gc=False):
    name: str
    type: TypeExpr | None


class CapName(Node, frozen=True, gc=False):
    """`fs::read`."""

    name: str


class Grants(Node, frozen=True, gc=False):
    """`may [...]` or `capabilities [...]`, and what narrows it. None where nothing is written."""

    capabilities: tuple[CapName, ...] | None = None
    paths: tuple[Text, ...] | None = None
    commands: tuple[Text, ...] | None = None
    hosts: tuple[Text, ...] | None = None


class FnDecl(Node, frozen=True, gc=False):
    name: str
    params: tuple[Param, ...]
    result: TypeExpr | None
    grants: Grants | None
    budget: Expr | None
    body: Block


class ToolDecl(Node, frozen=True, gc=False):
    name: str
    params: tuple[Param, ...]
    result: TypeExpr | None
    description: Text | None
    grants: Grants | None
    body: Block
    settings: tuple[Setting, ...] = ()


class ToolRef(Node, frozen=True, gc=False):
    """In `tools [read_file, mcp "github", yaml "tools.yaml"]`; `kind` is '', `mcp` or `yaml`."""

    name: str
    kind: str = ""


class AgentField(Node, frozen=True, gc=False):
    """`model "x"`, `temperature 0.2`; a block such as `retry { … }` is its settings."""

    name: str
    value: "Expr | tuple[Setting, ...] | tuple[ToolRef, ...]"


class AgentDecl(Node, frozen=True, gc=False):
    name: str
    fields: tuple[AgentField, ...]
    tools: tuple[ToolDecl, ...]


class SupervisorDecl(Node, frozen=True, gc=False):
    """`children` are names of agents and supervisors."""

    name: str
    settings: tuple[Setting, ...]
    children: tuple[Name, ...]


class UseMcp(Node, frozen=True, gc=False):
    """`use mcp "github"`, `use mcp "github" as gh`."""

    server: str
    name: str


class UseFile(Node, frozen=True, gc=False):
    """`use "lib/text.vega" as text`; without `as` the stem of the file is the name."""

    path: str
    name: str


Decl: TypeAlias = FnDecl | ToolDecl | AgentDecl | SupervisorDecl | TypeDecl | UseMcp | UseFile


class Source(Node, frozen=True, gc=False):
    """One file. `header` is `program may [...] …`; `body` are the statements at top level."""

    header: Grants | None
    decls: tuple[Decl, ...]
    body: tuple[Stmt, ...]
