"""Find plugins that the user enabled, have a child in the sandbox describe them, and carry out
calls of their tools and hooks in children of their own.

    settings of the user ─▶ entry point ─▶ child: import, describe ─▶ manifest, checked ─▶ the set
                                             │ hangs, exits, raises, lies
                                             └─▶ told; what it offered before is kept

| its grant has | the workspace there |
|---------------|---------------------|
| `fs::write`   | can be written      |
| `fs::read`    | can be read         |
| neither       | is an empty folder  |

Python and what is installed for it can be read; there is no network and no variable of ours. An
entry point is metadata: nothing of a plugin is imported here.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import invalidate_caches
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vegakit.errors import ToolFailed, VegaError
from vegakit.ports import CommandResult
from vegakit.records import digest128
from vegakit.sage.extensions.catalog import Catalog, Extension, plugin_source, rights_problem
from vegakit.sage.extensions.records import PluginManifest, PluginPlace, SageHook
from vegakit.tools import SandboxLimits, SandboxPool, SandboxSpec, python_folders

GROUP = "vegakit.plugins"
DESCRIBE_S, _DESCRIBE_CPU_S = 30, 10
"""An import takes a second of CPU; what takes ten does something else. By the clock it may take
longer, on a machine that has other things to do."""
_AT_ONCE = 4
"""Imports of plugins at the same time: one that takes all it gets must not make all others late."""
_MOST_DESCRIBED = 20
"""Times that one plugin is described again in a session: one that changes all the time is not
followed for ever."""
_MOST_FILES = 500
_ANSWER_BYTES, _SHOWN = 1_000_000, 300
_LIMITS = SandboxLimits(
    wall_ms=660_000,
    memory_bytes=512 << 20,
    processes=32,
    kept_bytes=_ANSWER_BYTES,
    output_bytes=_ANSWER_BYTES,
)
"""The same for all: a sandbox is opened once for its limits. `timeout` ends a child in time."""
_DESCRIBE_LIMITS = replace(_LIMITS, cpu_s=_DESCRIBE_CPU_S)
_OWN = Path(__file__).resolve().parents[2]
_BOOT = (
    "import sys; sys.path[:0] = {places!r}\n"
    "from vegakit.sage.extensions.plugin_worker import main; main()"
)


class _Answer(Struct):
    result: Any = None
    error: str = ""


class PluginHost:
    """The plugins of a session. Its children run in the sandboxes of the session's runtime, over
    its folder."""

    def __init__(self, sandboxes: SandboxPool, folder: Path) -> None:
        self._sandboxes, self._folder = sandboxes, folder
        self._described: dict[str, tuple[str, PluginManifest | str]] = {}
        self._counts: dict[str, int] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def add_to(self, catalog: Catalog, names: Sequence[str]) -> None:
        """Add what the named plugins offer, in this order. They are described at once, and one that
        hangs keeps nobody waiting longer than its own time."""
        found = await asyncio.to_thread(lambda: [plugin_place(name) for name in names])
        places = [one for one in found if isinstance(one, PluginPlace)]
        said = dict(
            zip(
                [place.name for place in places],
                await asyncio.gather(*(self._manifest(place) for place in places)),
                strict=True,
            )
        )
        for name, place in zip(names, found, strict=True):
            if isinstance(place, str):
                catalog.keep_plugin(name, place)
            elif isinstance(manifest := said[name], str):
                catalog.keep_plugin(name, manifest)
            else:
                catalog.add_plugin(place, _offered(place, manifest))

    async def marks(self, names: Sequence[str]) -> dict[str, str]:
        """Return what changes when a plugin does, by its name."""
        places = await asyncio.to_thread(lambda: {name: plugin_place(name) for name in names})
        return {
            name: place if isinstance(place, str) else await asyncio.to_thread(_mark, place)
            for name, place in places.items()
        }

    async def _manifest(self, place: PluginPlace) -> PluginManifest | str:
        """Return what a plugin says of itself, or why it is not used."""
        mark = await asyncio.to_thread(_mark, place)
        known = self._described.get(place.name)
        if known is not None and known[0] == mark:
            return known[1]
        count = self._counts[place.name] = self._counts.get(place.name, 0) + 1
        if count > _MOST_DESCRIBED:
            return f"it changed {count} times in this session; begin a new one to load it again"
        try:
            async with self._slots:
                said = await self._child(
                    place, {"do": "describe"}, (), DESCRIBE_S, _DESCRIBE_LIMITS
                )
            manifest = msgspec.convert(said, PluginManifest)
        except ToolFailed as error:
            manifest = str(error)
        except msgspec.ValidationError as error:
            manifest = f"its manifest is wrong: {error}; ask its author"
        if isinstance(manifest, PluginManifest):
            manifest = _manifest_problem(manifest) or manifest
        self._described[place.name] = mark, manifest
        return manifest

    async def call(
        self,
        place: PluginPlace,
        name: str,
        arguments: Mapping[str, Any],
        rights: Sequence[str],
        seconds: float,
    ) -> str:
        """Call a tool of a plugin, with these rights."""
        request = {"do": "tool", "name": name, "arguments": dict(arguments)}
        return str(await self._child(place, request, rights, seconds))

    async def hook(self, place: PluginPlace, hook: SageHook, event: Mapping[str, Any]) -> str:
        """Run a hook of a plugin, which may read the workspace."""
        request = {"do": "hook", "name": hook.name, "event": dict(event)}
        return str(await self._child(place, request, ("fs::read",), hook.timeout_s))

    async def _child(
        self,
        place: PluginPlace,
        request: Mapping[str, Any],
        rights: Sequence[str],
        seconds: float,
        limits: SandboxLimits = _LIMITS,
    ) -> Any:  # noqa: ANN401
        asked = {
            **request,
            "places": [str(Path(folder).parent) for folder in place.folders],
            "module": place.module,
            "attribute": place.attribute,
        }
        readable = python_folders(_OWN, *(Path(folder) for folder in place.folders))
        writable = "fs::write" in rights
        workspace = self._folder if writable or "fs::read" in rights else None
        spec = SandboxSpec(workspace, writable, readable, limits)
        boot = _BOOT.format(places=[str(_OWN.parent)])
        timed = ["timeout", "-k", "1", f"{seconds:g}"]
        argv = [*timed, sys.executable, "-I", "-X", "utf8", "-c", boot]
        try:
            ran = await self._sandboxes.run(argv, spec, json.dumps(asked).encode())
        except VegaError as error:
            raise ToolFailed(f"{place.name}: nothing is run: {error}") from error
        return _answer_of(place.name, ran, seconds)


def _answer_of(name: str, ran: CommandResult, seconds: float) -> Any:  # noqa: ANN401
    """Return what a child answered. It may say anything."""
    try:
        answer = msgspec.json.decode(ran.stdout, type=_Answer)
    except (msgspec.MsgspecError, RecursionError):
        said = "; ".join(filter(None, (*ran.notes, ran.stderr.strip()[-_SHOWN:])))
        late = f" within {seconds:g} s" if ran.duration_ms >= 1000 * seconds else ""
        why = f"it gave no answer{late}, and ended with exit code {ran.exit_code}"
        raise ToolFailed(f"{name}: {why}{f': {said}' if said else ''}; ask its author") from None
    if answer.error:
        raise ToolFailed(f"{name}: {answer.error}")
    return answer.result


def plugin_place(name: str) -> PluginPlace | str:
    """Return where a plugin is, or why it is nowhere. Only metadata are read."""
    invalidate_caches()  # it may have been installed while the session was open
    found = [*entry_points(group=GROUP, name=name)]
    if not found:
        known = ", ".join(sorted({one.name for one in entry_points(group=GROUP)})) or "none"
        return f"no plugin of this name is installed; installed are: {known}"
    if len(found) > 1:
        owners = " and ".join(sorted(_owner(one) for one in found))
        return f"{owners} both offer it; uninstall one of them"
    one = found[0]
    try:
        module, attribute = one.module, one.attr
        top = find_spec(module.partition(".")[0])
    except (AttributeError, ImportError, ValueError) as error:
        return f"its entry point {one.value[:80]!a} cannot be read: {error}; ask its author"
    if top is None or not attribute or "." in attribute:
        return (
            f"its entry point {one.value[:80]!a} names nothing that is installed, or not "
            "module:name; ask its author"
        )
    places = [*(top.submodule_search_locations or [top.origin or ""])]
    folders = tuple(str(Path(place).resolve()) for place in places if Path(place).exists())
    version = one.dist.version if one.dist is not None else ""
    return PluginPlace(name, version, module, attribute, folders)


def _owner(one: EntryPoint) -> str:
    return one.dist.name if one.dist is not None else one.value


def _mark(place: PluginPlace) -> str:
    """Return what changes when a file of a plugin does."""
    seen: list[object] = [place.version, place.module, place.attribute]
    for folder in map(Path, place.folders):
        files = sorted(islice(folder.rglob("*.py"), _MOST_FILES)) if folder.is_dir() else [folder]
        for file in files:
            try:
                at = file.lstat()
            except OSError:
                continue
            seen.append([str(file), at.st_mtime_ns, at.st_size])
    return digest128(seen)


def _manifest_problem(manifest: PluginManifest) -> str:
    if problem := rights_problem(manifest.capabilities):
        return problem
    for tool in manifest.tools:
        if more := [one for one in tool.capabilities if one not in manifest.capabilities]:
            return f"its tool {tool.name[:80]} declares {more[0]}, and the plugin does not"
    return ""


def _offered(place: PluginPlace, manifest: PluginManifest) -> list[Extension]:
    """Return what a plugin offers, each under its name: it cannot say that it is another's."""
    name, source = place.name, plugin_source(place.name)
    return [
        *(replace(one, plugin=name, source=source) for one in manifest.tools),
        *(replace(one, source=source) for one in manifest.commands),
        *(replace(one, source=source) for one in manifest.agents),
        *(
            replace(one, plugin=name, source=source, command=(), writes=False)
            for one in manifest.hooks
        ),
    ]
