"""`run_program`: a tool by which the model of an agent writes programs and runs them.

    planner = Agent("planner", tools=[run_program([reader, critic], max_cost="$1")])

Each is checked, compared with what was given here, and quoted, before its first call. What is
refused comes back to the model as text that says how to mend it.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vegakit.authoring import LANGUAGES, MOST_BYTES, May
from vegakit.conversation import ToolSpec
from vegakit.errors import BugError, UserError
from vegakit.money import dollars, show
from vegakit.ports import AuditLevel
from vegakit.runtime.authored.notes import notes_of

if TYPE_CHECKING:
    from vegakit.runtime.agents import Agent
    from vegakit.runtime.compiled.bridge import Bridge, ToolLike

__all__ = ["RunProgram", "run_program"]

_NOTHING = May()
_MOST_FUEL = 2_000_000
"""Instructions that one program may burn: below a second of a core."""


def run_program(
    agents: "Sequence[Agent[Any]]" = (),
    tools: "Iterable[ToolLike]" = (),
    *,
    max_cost: str | float = "$1",
    may: May = _NOTHING,
    models: Sequence[str] = (),
    types: Iterable[Any] = (),
    most: int = 8,
    nested: int = 1,
    timeout: float = 600.0,
    root: str | PathLike[str] = ".",
    name: str = "run_program",
    languages: Sequence[str] = tuple(LANGUAGES),
    teach: bool = True,
) -> "RunProgram":
    """A program may ask `agents` by name, call `tools` (functions of Python) and knows `types`;
    `may` is what its own code may touch below `root`. It costs `max_cost` at most, and runs for
    `timeout` seconds at most. It may declare agents of its own, on the models of `agents` or on
    `models`, with tools of `tools` or written beside them. `most` programs may run in one turn, and
    `nested` deep inside each other. They are written in one of `languages`; with `teach` the model
    is told the first of them."""
    return RunProgram(
        tuple(agents),
        tuple(tools),
        max_cost,
        may,
        tuple(models),
        tuple(types),
        most,
        nested,
        round(timeout * 1000),
        Path(root),
        name,
        tuple(languages),
        teach=teach,
    )


class RunProgram:
    """As an agent knows it: the machine of its program runs it; no host ever calls it."""

    repeatable = False
    audit = AuditLevel.BASIC

    def __init__(
        self,
        agents: "tuple[Agent[Any], ...]",
        tools: "tuple[ToolLike, ...]",
        max_cost: str | float,
        may: May,
        models: tuple[str, ...],
        types: tuple[Any, ...],
        most: int,
        nested: int,
        timeout_ms: int,
        root: Path,
        name: str,
        languages: tuple[str, ...],
        *,
        teach: bool,
    ) -> None:
        _check(agents, tools, most, nested, timeout_ms)
        if not languages or not set(languages) <= LANGUAGES.keys():
            raise UserError(f"languages are some of: {', '.join(LANGUAGES)}")
        self.agents, self.models = agents, models
        self.cost, self.may = dollars(max_cost), may
        self.most, self.nested, self.timeout_ms = most, nested, timeout_ms
        self.root, self.fuel = root, _MOST_FUEL
        self.languages = languages
        self._tools, self._types, self._teach = tools, types, teach
        self.spec = ToolSpec(name, self._description(), _parameters(self.languages))

    @cached_property
    def bridge(self) -> "Bridge":
        from vegakit.runtime.compiled.bridge import Bridge

        return Bridge(self._tools, self._types)

    @cached_property
    def notes(self) -> str:
        """What its agent is told beside: a tool's description is too short for a language."""
        return notes_of(self, teach=self._teach)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        raise BugError(f"{self.spec.name} runs inside its program")

    def _description(self) -> str:
        return (
            "Write a program and run it: loops, conditions and many agents at once, for what "
            "would take many calls one by one. It is checked and priced before its first call, may "
            f"cost at most {show(self.cost)}, and gives back its result, what it printed and what "
            "it spent. If it is refused, mend the source as the text says and send all of it again."
        )


def _parameters(languages: tuple[str, ...]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "source": {"type": "string", "description": f"The program, at most {MOST_BYTES:,} bytes."},
        "arguments": {"type": "object", "description": "The parameters of main, by name."},
    }
    if len(languages) > 1:
        fields["language"] = {"type": "string", "enum": list(languages)}
    return {"type": "object", "properties": fields, "required": ["source"]}


def _check(
    agents: "tuple[Agent[Any], ...]", tools: tuple[object, ...], most: int, nested: int, ms: int
) -> None:
    names = [agent.name for agent in agents]
    for name in names:
        if not (name.isidentifier() and name.isascii()) or names.count(name) > 1:
            raise UserError(
                f"a program cannot ask the agent {name!r}; give each agent a name of its own, of "
                'letters, digits and _, as in Agent("reader", …)'
            )
    if any(isinstance(tool, RunProgram) for tool in tools):
        raise UserError(
            "a program does not run programs itself; give run_program to one of its agents: "
            "Agent(…, tools=[run_program(…)])"
        )
    if most < 1 or nested < 0 or ms < 1:
        raise UserError("most and timeout are at least 1, nested at least 0")
