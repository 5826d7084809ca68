"""The manifest of a program: all that it may ask, call and touch, as one list for its reader."""

from msgspec import Struct

from vegakit.lang.checked import Checked
from vegakit.lang.compiling import compile_program
from vegakit.lang.rows.program import effects_of
from vegakit.lang.rows.records import NOTHING_TOUCHED

__all__ = ["AgentLine", "Manifest", "manifest_of"]

_MAIN = "main"


class AgentLine(Struct, frozen=True):
    name: str
    model: str
    tools: tuple[str, ...]


class Manifest(Struct, frozen=True):
    """Only of what `main` can reach."""

    agents: tuple[AgentLine, ...]
    tools: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    gets: tuple[str, ...]
    posts: tuple[str, ...]
    commands: tuple[str, ...]
    servers: tuple[str, ...]
    unknown: tuple[str, ...]
    asks_people: bool


def manifest_of(checked: Checked) -> Manifest:
    module, row = compile_program(checked), effects_of(checked).get(_MAIN, NOTHING_TOUCHED)
    named = row.sends | row.spawns
    agents = tuple(
        AgentLine(spec.name, spec.model, (*spec.tools, *spec.mcp, *spec.yaml))
        for spec in module.agents
        if spec.name in named
    )
    tools = sorted({tool for agent in agents for tool in agent.tools})
    touched = {name: tuple(sorted(getattr(row, name))) for name in _TOUCHED}
    return Manifest(agents, tuple(tools), asks_people=row.asks_people, **touched)


_TOUCHED = ("reads", "writes", "gets", "posts", "commands", "servers", "unknown")
