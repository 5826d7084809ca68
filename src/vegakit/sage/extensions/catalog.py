"""Put extensions together into the set of a turn: each is checked, and no two have one name.

| who has the name | who comes with the same                | what happens            |
|------------------|----------------------------------------|-------------------------|
| a built-in       | anybody                                | left out, both are told |
| the user's file  | a file of the project, a plugin        | left out, both are told |
| a project's file | a plugin                               | left out, both are told |
| a plugin         | a plugin that the settings name later  | left out, both are told |

One that is broken now and was right in the turn before is kept as it was, and that is told.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from vegakit.errors import InvalidMoneyError, InvalidRuleError
from vegakit.money import dollars
from vegakit.policy import Grant, sanitise
from vegakit.sage.extensions.records import (
    BUILT_IN_COMMANDS,
    NAME,
    SANDBOXED_RIGHTS,
    TOOL_NAME,
    CommandTool,
    DescribedTool,
    ExtensionSet,
    HookTime,
    PluginPlace,
    SageCommand,
    SageHook,
    SageSubAgent,
)
from vegakit.tools import fold_name

Extension: TypeAlias = SageCommand | SageSubAgent | SageHook | CommandTool | DescribedTool

KINDS: dict[type[Extension], str] = {
    SageCommand: "commands",
    SageSubAgent: "agents",
    SageHook: "hooks",
    CommandTool: "tools",
    DescribedTool: "plugin_tools",
}
"""Which field of a set holds a kind."""
_SPACES = {"plugin_tools": "tools"}
"""Kinds whose names stand beside those of another: a model sees only tools."""
BUILT_IN_AGENTS = frozenset({"explore", "plan", "review", "work"})
MOST_OF_A_KIND = 32
LONGEST_TEXT = 32_000
_LONGEST_TOLD, _MOST_TOLD = 240, 6_000
_LONGEST_TOOL, _LONGEST_SCHEMA = 2_000, 16_000
_LONGEST_TIMEOUT_S, _LONGEST_TOOL_S = 60, 600
_MOST_NOTES, _LONGEST_NOTE = 40, 500
_PERCENT = re.compile(r"([1-9][0-9]?|100)%")
_MODEL = re.compile(r"[A-Za-z0-9_.:/@-]{1,200}")


class Broken(NamedTuple):
    """An extension that cannot be used: which, and why, with what to do. One that `was_trusted` was
    so before it changed."""

    kind: str
    name: str
    source: str
    why: str
    was_trusted: bool = False


class Catalog:
    """Extensions as they are added, the first of a name first. `tools` are the names of those that
    the session has itself; `before` is the set of the turn before."""

    def __init__(self, tools: Iterable[str], before: ExtensionSet) -> None:
        self._taken = {
            "tools": {fold_name(name): f"the built-in tool {name}" for name in tools},
            "agents": {name: f"the built-in agent {name}" for name in BUILT_IN_AGENTS},
            "commands": {name: f"the built-in command /{name}" for name in BUILT_IN_COMMANDS},
            "hooks": dict[str, str](),
        }
        self._tools = frozenset(tools)
        self._before = before
        self._found: dict[str, dict[str, Any]] = {field: {} for field in KINDS.values()}
        self._plugins: dict[str, PluginPlace] = {}
        self._notes: list[str] = []

    def note(self, text: str) -> None:
        """Add what a person should know."""
        told = " ".join(sanitise(text, _LONGEST_NOTE).split())
        if told not in self._notes:
            self._notes.append(told)

    def add(self, extension: Extension | Broken) -> None:
        """Add an extension, or tell why it is left out."""
        if isinstance(extension, Broken):
            self._keep_old(extension)
            return
        field = KINDS[type(extension)]
        named = f"{one_of(field)} {extension.name[:80]} of {extension.source}"
        if problem := _CHECKS[type(extension)](extension):
            self._keep_old(Broken(field, extension.name, extension.source, problem))
        elif taken := self._taken_by(field, extension.name):
            self.note(f"{named} is left out: {taken} has this name; rename it")
        elif len(self._found[field]) >= MOST_OF_A_KIND:
            self.note(f"{named} is left out: only {MOST_OF_A_KIND} are used; remove some")
        else:
            self._put(field, extension)

    def add_plugin(self, place: PluginPlace, extensions: Iterable[Extension]) -> None:
        """Add what a plugin offers."""
        self._plugins[place.name] = place
        for extension in extensions:
            self.add(extension)

    def keep_plugin(self, name: str, why: str) -> None:
        """Tell why a plugin is not loaded now, and keep what it offered in the turn before."""
        place = self._before.plugins.get(name)
        if place is None:
            self.note(f"plugin {name} is not used: {why}")
            return
        self.note(f"plugin {name} is used as it was before, since it cannot be loaded now: {why}")
        self._plugins[name] = place
        for field in KINDS.values():
            for old in getattr(self._before, field).values():
                if getattr(old, "source", "") == plugin_source(name):
                    self.add(old)

    def made(self) -> tuple[ExtensionSet, tuple[str, ...]]:
        """Return the set, and what is to be told of it. Agents that name a tool which nobody has
        are left out here, where all tools are known."""
        known = {*self._tools, *self._found["tools"], *self._found["plugin_tools"]} - {"task"}
        agents: dict[str, SageSubAgent] = self._found["agents"]
        for name, agent in [*agents.items()]:
            if unknown := [tool for tool in agent.tools or () if tool not in known]:
                del agents[name]
                self.note(
                    f"agent {name} of {agent.source} is left out: it asks for the tool "
                    f"{unknown[0][:80]}, which sub-agents of this session do not have; take it out"
                )
        more = len(self._notes) - _MOST_NOTES
        told = [*self._notes[:_MOST_NOTES], *([f"{more} more notes"] if more > 0 else [])]
        return ExtensionSet(**self._found, plugins=self._plugins), tuple(told)

    def was_used(self, broken: Broken) -> bool:
        """Return whether the turn before had it, from the same source."""
        old = getattr(self._before, broken.kind).get(broken.name)
        return old is not None and old.source == broken.source

    def _keep_old(self, broken: Broken) -> None:
        named = f"{one_of(broken.kind)} {broken.name[:80]} of {broken.source}"
        if self.was_used(broken) and not self._taken_by(broken.kind, broken.name):
            self._put(broken.kind, getattr(self._before, broken.kind)[broken.name])
            self.note(f"{named} is used as it was before: {broken.why}")
        else:
            self.note(f"{named} is left out: {broken.why}")

    def _taken_by(self, field: str, name: str) -> str:
        space = _SPACES.get(field, field)
        return self._taken[space].get(fold_name(name) if space == "tools" else name, "")

    def _put(self, field: str, extension: Any) -> None:  # noqa: ANN401
        space = _SPACES.get(field, field)
        key = fold_name(extension.name) if space == "tools" else extension.name
        self._taken[space][key] = extension.source
        self._found[field][extension.name] = extension


def one_of(field: str) -> str:
    """Return what one of a kind is called."""
    return field.removeprefix("plugin_").removesuffix("s")


def plugin_source(name: str) -> str:
    """Return how the source of what a plugin offers is told."""
    return f"plugin {name}"


# Checks: what is wrong with an extension, and what to do; empty if nothing is.


def _command_problem(one: SageCommand) -> str:
    if not NAME.fullmatch(one.name):
        return "its name must be of small letters, digits and hyphens, 64 at most; rename it"
    if not one.text.strip():
        return "it says nothing; write what to do, with $ARGUMENTS where the arguments go"
    return _too_long(one.text, LONGEST_TEXT) or _too_long(one.description, _LONGEST_TOLD)


def _agent_problem(one: SageSubAgent) -> str:
    if not NAME.fullmatch(one.name):
        return "its name must be of small letters, digits and hyphens, 64 at most; rename it"
    if not one.prompt.strip():
        return "it says nothing; write below the second --- what the agent is to do"
    if not one.description.strip():
        return "it has no description; add a line: description: …"
    if one.model and not _MODEL.fullmatch(one.model):
        return f"{one.model[:80]!a} is no model; write an alias such as fast, or provider:name"
    problem = _budget_problem(one.budget) if one.budget else ""
    return problem or _too_long(one.prompt, LONGEST_TEXT) or _too_long(one.description, _MOST_TOLD)


def _budget_problem(budget: str) -> str:
    if _PERCENT.fullmatch(budget):
        return ""
    try:
        dollars(budget)
    except InvalidMoneyError:
        return (
            f"budget {budget[:40]!a} is neither an amount nor a part of what is left; write it "
            "like $0.05 or 10%, at most 100%"
        )
    return ""


def _hook_problem(one: SageHook) -> str:
    if not NAME.fullmatch(one.name):
        return "its name must be of small letters, digits and hyphens, 64 at most; rename it"
    if bool(one.command) == bool(one.plugin) and not one.refusal:
        return 'it has no command; write command = ["program", "argument"]'
    if not 1 <= one.timeout_s <= _LONGEST_TIMEOUT_S:
        return f"timeout_s is from 1 to {_LONGEST_TIMEOUT_S} seconds; got {one.timeout_s}"
    if one.when is HookTime.TURN_END and (one.tools or one.writes):
        return (
            "at the end of a turn there is no tool, and undo sees no write; take tools, writes out"
        )
    return ""


def _command_tool_problem(one: CommandTool) -> str:
    wrong = "its name must be of small letters, digits and _, beginning with a letter; rename it"
    return "" if TOOL_NAME.fullmatch(one.name) else wrong


def _described_problem(one: DescribedTool) -> str:
    if not TOOL_NAME.fullmatch(one.name):
        return "its name must be of small letters, digits and _, beginning with a letter; rename it"
    if not one.description.strip():
        return "it has no description; give its function a docstring"
    if one.schema.get("type") != "object":
        return "the schema of its arguments is no object; use @tool, which makes one"
    if not 1 <= one.timeout_ms <= 1000 * _LONGEST_TOOL_S:
        return f"its timeout is from 1 to {1000 * _LONGEST_TOOL_S} ms; got {one.timeout_ms}"
    problem = rights_problem(one.capabilities) or _too_long(one.description, _LONGEST_TOOL)
    return problem or _too_long(str(one.schema), _LONGEST_SCHEMA)


def rights_problem(capabilities: Iterable[str]) -> str:
    """Return what is wrong with the capabilities that code of others declares."""
    for capability in capabilities:
        try:
            Grant((capability,))
        except InvalidRuleError as error:
            return str(error)
        if capability not in SANDBOXED_RIGHTS:
            known = ", ".join(sorted(SANDBOXED_RIGHTS))
            return (
                f"it declares {capability}, and runs in a sandbox that has no such thing; declare "
                f"{known} or nothing, or offer it by an MCP server"
            )
    return ""


def _too_long(text: str, most: int) -> str:
    if len(text) <= most:
        return ""
    return f"a text of it has {len(text):,} characters, and {most:,} are the most; shorten it"


_CHECKS: Mapping[type[Extension], Any] = {
    SageCommand: _command_problem,
    SageSubAgent: _agent_problem,
    SageHook: _hook_problem,
    CommandTool: _command_tool_problem,
    DescribedTool: _described_problem,
}


def share_of(budget: str, left: int) -> int | None:
    """Return the most that an agent with this budget may have of what is left; None if it has
    none."""
    if not budget:
        return None
    if found := _PERCENT.fullmatch(budget):
        return left * int(found[1]) // 100
    return int(dollars(budget))
