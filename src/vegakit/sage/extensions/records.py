"""The records of extensions: what a file says, what a plugin offers, and the set of a turn."""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
BUILT_IN_COMMANDS = frozenset(
    """
    agents budget clear code commands compact copy cost exit export fork help hooks kill mode model
    models new permissions plain plugins quit redo rename resume rewind search sessions skills theme
    todo tools tree undo worktree
    """.split()
)
"""Commands that belong to the interface, now or later: no file and no plugin takes their names."""
SANDBOXED_RIGHTS = frozenset({"fs::read", "fs::write", "process::exec"})
"""What the code of others may declare. The sandbox has no network, so nothing else would work."""


class SageCommand(Struct, frozen=True, omit_defaults=True):
    """A prompt with a name: `/name words` says `text`, with the words in place of `$ARGUMENTS`.
    `arguments` tells a person what they are."""

    name: str
    text: str
    description: str = ""
    arguments: str = ""
    source: str = ""


class SageSubAgent(Struct, frozen=True, omit_defaults=True):
    """A sub-agent that `task` may start. `tools` are of those that sub-agents have, all if None;
    `budget` is the most that one may spend, as an amount or as a part of what is left."""

    name: str
    prompt: str
    description: str
    model: str = ""
    tools: tuple[str, ...] | None = None
    budget: str = ""
    source: str = ""


class HookTime(StrEnum):
    """The moments at which a hook runs."""

    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    TURN_END = "turn_end"


class SageHook(Struct, frozen=True, omit_defaults=True):
    """A command, or a function of a plugin, that runs before or after calls of `tools`, of all if
    there are none, or at the end of a turn. It may refuse a call, and cannot allow one; with a
    `refusal` nothing is run, and every call is refused for that reason."""

    name: str
    when: HookTime
    command: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    timeout_s: int = 10
    writes: bool = False
    plugin: str = ""
    source: str = ""
    refusal: str = ""

    def concerns(self, tool: str) -> bool:
        """Return whether it is about this tool."""
        return not self.tools or tool in self.tools


class CommandTool(Struct, frozen=True, omit_defaults=True):
    """A tool that is a command: its table, as a file has it."""

    name: str
    table: dict[str, Any]
    source: str = ""


class DescribedTool(Struct, frozen=True, omit_defaults=True):
    """A tool of a plugin, as the plugin describes it."""

    name: str
    description: str
    schema: dict[str, Any]
    capabilities: tuple[str, ...]
    plugin: str = ""
    idempotent: bool = False
    timeout_ms: int = 60_000
    source: str = ""


class PluginPlace(Struct, frozen=True, omit_defaults=True):
    """A plugin is here: the module and name of its entry point, and what a child has to read."""

    name: str
    version: str
    module: str
    attribute: str
    folders: tuple[str, ...]


class ExtensionSet(Struct, frozen=True, omit_defaults=True):
    """All that extensions add to a turn, by name. It is kept with the turn, so that a turn that
    goes on after a kill has what it began with."""

    commands: dict[str, SageCommand] = {}
    agents: dict[str, SageSubAgent] = {}
    hooks: dict[str, SageHook] = {}
    tools: dict[str, CommandTool] = {}
    plugin_tools: dict[str, DescribedTool] = {}
    plugins: dict[str, PluginPlace] = {}


NO_EXTENSIONS = ExtensionSet()


# What the author of a plugin writes.


class PluginHook(Struct, frozen=True):
    """A hook of a plugin. `run` is called with the event, as a dictionary; the text that it returns
    refuses a call, or is told after it."""

    name: str
    when: str
    run: Callable[[Mapping[str, Any]], str | None]
    tools: Sequence[str] = ()
    timeout_s: int = 10


class Plugin(Struct, frozen=True):
    """A plugin adds this, as the object that its entry point names. `capabilities` are all that its
    tools declare. Its code runs in the sandbox and never in the process of a session."""

    capabilities: Sequence[str] = ()
    tools: Sequence[Any] = ()
    commands: Sequence[SageCommand] = ()
    agents: Sequence[SageSubAgent] = ()
    hooks: Sequence[PluginHook] = ()


class PluginManifest(Struct, frozen=True, forbid_unknown_fields=True):
    """A plugin said this of itself, from the sandbox: nothing of it is believed unchecked."""

    capabilities: tuple[str, ...] = ()
    tools: tuple[DescribedTool, ...] = ()
    commands: tuple[SageCommand, ...] = ()
    agents: tuple[SageSubAgent, ...] = ()
    hooks: tuple[SageHook, ...] = ()


# Commands in a prompt.

_TYPED = re.compile(r"/([a-z0-9][a-z0-9-]{0,63})(?:\s+(.*))?", re.DOTALL)
_PLACE = re.compile(r"\$(ARGUMENTS|[1-9])(?![A-Za-z0-9_])")


def typed_command(prompt: str) -> tuple[str, str]:
    """Return the name and the arguments of a prompt that begins like a command; empty if it does
    not."""
    found = _TYPED.fullmatch(prompt.strip())
    return (found[1], (found[2] or "").strip()) if found else ("", "")


def filled_command(command: SageCommand, arguments: str) -> str:
    """Return the text of a command with its arguments: all for `$ARGUMENTS`, single words for `$1`
    to `$9`. Each place is filled once, so that nothing in an argument is a place; where there is
    none, the arguments follow the text. Nothing of it is run."""
    words = arguments.split()

    def value(place: re.Match[str]) -> str:
        if place[1] == "ARGUMENTS":
            return arguments
        return words[int(place[1]) - 1] if int(place[1]) <= len(words) else ""

    text, filled = _PLACE.subn(value, command.text)
    return text if filled or not arguments else f"{text}\n\n{arguments}"
