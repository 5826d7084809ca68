"""What the declarations of a program stand for: the names a file knows."""

from typing import TypeAlias

from msgspec import Struct

from vegakit.lang.checked import CalleeKind, Unit
from vegakit.lang.signatures import Parameter
from vegakit.lang.tree import AgentDecl, FnDecl, Node, SupervisorDecl, ToolDecl, TypeDecl
from vegakit.lang.types import Type

__all__ = [
    "Agent",
    "Declared",
    "Names",
    "Record",
    "Routine",
    "Server",
    "Supervisor",
    "Used",
    "described",
]


class Routine(Struct, frozen=True):
    """A function or tool."""

    kind: CalleeKind
    full: str
    params: tuple[Parameter, ...]
    result: Type
    node: FnDecl | ToolDecl


class Agent(Struct, frozen=True):
    full: str
    node: AgentDecl


class Supervisor(Struct, frozen=True):
    full: str
    node: SupervisorDecl


class Record(Struct, frozen=True):
    """A declared type, an alias too; without a node it is from Python."""

    type: Type
    node: TypeDecl | None


class Server(Struct, frozen=True):
    server: str
    node: Node


class Used(Struct, frozen=True):
    """Another file; its names stand behind `name::`."""

    path: str
    node: Node


Declared: TypeAlias = Routine | Agent | Supervisor | Record | Server | Used

_WORDS = {
    Agent: "an agent",
    Supervisor: "a supervisor",
    Record: "a type",
    Server: "an MCP server",
    Used: "a file",
}


class Names(Struct):
    """Of one file. `nested` are the tools inside agents, by the name of the agent; `others` are the
    files it uses; `top_level` are the variables of its statements at top level;
    `pending` are the types it declares."""

    unit: Unit
    own: dict[str, Declared]
    nested: dict[str, dict[str, Routine]]
    others: dict[str, "Names"]
    top_level: set[str]
    pending: dict[str, TypeDecl]

    def find(self, name: str) -> Declared | None:
        """`Finder`, or `text::Finder` of a file that is used."""
        front, colons, last = name.rpartition("::")
        if not colons:
            return self.own.get(name)
        other = self.others.get(front)
        found = None if other is None else other.own.get(last)
        return None if isinstance(found, Server | Used) else found

    def full(self, name: str) -> str:
        return f"{self.unit.name}::{name}" if self.unit.name else name


def described(declared: Declared) -> str:
    if isinstance(declared, Routine):
        return "a tool" if declared.kind is CalleeKind.TOOL else "a function"
    return _WORDS[type(declared)]
