"""Load the extensions of a session, and again before each turn in which something changed.

    before a turn ─▶ did a file or a plugin change? ─ no ─▶ the same set
                                 │ yes
                                 └─▶ read all, broken ones as they were ─▶ the set of the turn
    a turn goes on after a kill ─▶ the set that it began with, from what is kept

Files are looked at once a turn, so that a file which changes all the time is read once a turn.
"""

import asyncio
from pathlib import Path

from msgspec import Struct

from vegakit.config import Settings, SourceKind, user_config_dir
from vegakit.errors import UserError, did_you_mean
from vegakit.sage.extensions.catalog import Broken, Catalog
from vegakit.sage.extensions.files import marks_of, places_of, read_place
from vegakit.sage.extensions.plugins import PluginHost
from vegakit.sage.extensions.records import (
    NO_EXTENSIONS,
    ExtensionSet,
    HookTime,
    SageHook,
    filled_command,
    typed_command,
)

_MOST_NAMED = 5


class CommandInfo(Struct, frozen=True):
    """A command that a person may type, for whoever shows them."""

    name: str
    arguments: str
    description: str
    source: str


class Extensions:
    """The extensions of a session. `current` is the set of the turn that goes on or comes next;
    `notes` are what a person should know of them."""

    def __init__(self, folder: Path, settings: Settings, plugins: PluginHost) -> None:
        self._places = places_of(folder, user_config_dir())
        self._plugins = plugins
        self._names = settings.code.plugins
        self._refused = ""
        source = settings.sources.get("code.plugins")
        if source is not None and source.kind is SourceKind.PROJECT:
            self._names = ()
            self._refused = (
                f"plugins that {source.place} names are not used: a project cannot enable one; "
                'write plugins = ["…"] under [code] of your own settings'
            )
        self._marks: object = None
        self.current = NO_EXTENSIONS
        self.notes: tuple[str, ...] = ()

    async def refresh(self, tools: tuple[str, ...]) -> tuple[str, ...]:
        """Load what changed into `current`, and return what is to be told of it now: nothing if
        nothing changed. `tools` are the names that are taken."""
        marks = (
            await asyncio.to_thread(marks_of, self._places),
            await self._plugins.marks(self._names) if self._names else {},
        )
        if marks == self._marks:
            return ()
        before = self.notes
        self.current, self.notes = await self._load(tools)
        self._marks = marks
        return tuple(note for note in self.notes if note not in before)

    async def _load(self, tools: tuple[str, ...]) -> tuple[ExtensionSet, tuple[str, ...]]:
        catalog = Catalog(tools, self.current)
        if self._refused:
            catalog.note(self._refused)
        for place in self._places:
            files = await read_place(place)
            for note in files.notes:
                catalog.note(note)
            for found in files.found:
                catalog.add(found)
            _add_untrusted(catalog, files.untrusted)
        if self._names:
            await self._plugins.add_to(catalog, self._names)
        return catalog.made()

    def commands(self) -> tuple[CommandInfo, ...]:
        """Return the commands that a person may type now, by name."""
        found = sorted(self.current.commands.items())
        return tuple(
            CommandInfo(name, one.arguments, one.description, one.source) for name, one in found
        )

    def said(self, prompt: str) -> str:
        """Return what a prompt says to the agent: of a command its text with the arguments. What
        begins like none that is known is said as it is, unless it is a slip of one."""
        name, arguments = typed_command(prompt)
        if command := self.current.commands.get(name):
            return filled_command(command, arguments)
        if name and (close := did_you_mean(name, self.current.commands, "")):
            raise UserError(
                f"there is no command /{name}; {close} To say it as it is, put a word before it"
            )
        return prompt


def _add_untrusted(catalog: Catalog, files: list[Broken]) -> None:
    """Keep as they were those that this session used before they changed, and tell of the others in
    one line. A hook of a trusted folder that changed may have been a guard, and nobody knows of
    what: until it is accepted, it refuses every call."""
    new = [file for file in files if not catalog.was_used(file)]
    for file in files:
        if file not in new:
            catalog.add(file)
        elif file.kind == "hooks" and file.was_trusted:
            why = f"it came or changed since its folder was trusted, and {file.why}"
            catalog.add(SageHook(file.name, HookTime.BEFORE_TOOL, source=file.source, refusal=why))
    if new:
        named = ", ".join(file.source for file in new[:_MOST_NAMED])
        more = f" and {len(new) - _MOST_NAMED} more" if len(new) > _MOST_NAMED else ""
        catalog.note(
            f"{named}{more} came with the project, and nothing of it is used: you have not "
            "accepted it as it is now; read it, then type: vega trust"
        )
