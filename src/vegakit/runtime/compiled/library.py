"""Library functions that touch the world, each under the rights of the function that calls it.

They answer in JSON, in the form that values of programs have.
"""

import mimetypes
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from vegakit.conversation import ToolSpec
from vegakit.errors import ToolFailed
from vegakit.lang import LIBRARY, Module, Rights
from vegakit.policy import Grant, delegate
from vegakit.ports import AuditLevel, Tool
from vegakit.records import to_json
from vegakit.tools import Rights as ToolRights
from vegakit.tools import ToolContext, declared

__all__ = ["LibraryTool", "grant_of", "library_tools"]

_PROJECT = "/project/"
_TIMEOUT_MS = 180_000
_SAID = 2_000
_MOST_MEDIA = 5_000_000


class LibraryTool:
    """`file::read@2` is `file::read` under the rights number 2 of a module."""

    timeout_ms = _TIMEOUT_MS
    audit = AuditLevel.BASIC

    def __init__(self, name: str, number: int, context: ToolContext) -> None:
        self.spec = ToolSpec(f"{name}@{number}", LIBRARY[name].doc, {})
        self.repeatable = LIBRARY[name].repeatable
        self._function = FUNCTIONS[name]
        self._context = context

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        return declared(self._context.grant)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        return to_json(await self._function(self._context, **arguments)).decode()


def library_tools(
    module: Module,
    root: Path,
    allowed: Sequence[str] | None,
    within: Rights | None = None,
    most: Grant | None = None,
) -> dict[str, Tool]:
    """`within` are the rights of a tool, which the functions that it calls do not exceed, and
    `most` what nothing here exceeds."""
    tools: dict[str, Tool] = {}
    for number, own in enumerate(module.rights):
        rights = own if within is None else _both(own, within)
        grant = grant_of(rights, allowed) if most is None else _cut(rights, most)
        context = ToolContext(root, grant)
        made = (LibraryTool(name, number, context) for name in FUNCTIONS)
        tools |= {tool.spec.name: tool for tool in made}
    return tools


def _both(one: Rights, other: Rights) -> Rights:
    """Of two lists of patterns those that stand in both: less, rather than more, than their sense
    would allow."""
    if one == other:
        return one
    capabilities = [
        *(name for name in one.capabilities if _covered(name, other.capabilities)),
        *(name for name in other.capabilities if _covered(name, one.capabilities)),
    ]
    return Rights(
        tuple(dict.fromkeys(capabilities)),
        _common(one.paths, other.paths),
        _common(one.commands or (), other.commands or ()),
        _common(one.hosts or (), other.hosts or ()),
    )


def _covered(name: str, by: Sequence[str]) -> bool:
    return any(name == branch or name.startswith(f"{branch}::") for branch in by)


def _common(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return tuple(pattern for pattern in one if pattern in other)


def grant_of(rights: Rights, allowed: Sequence[str] | None) -> Grant:
    """What the source says, less what its runner does not allow. Files without paths are those of
    the project; hosts and commands have to be named."""
    capabilities = (name for name in rights.capabilities if allowed is None or name in allowed)
    paths = ("**",) if rights.paths is None else tuple(map(_in_project, rights.paths))
    return Grant(
        tuple(capabilities),
        paths=paths,
        commands=rights.commands or (),
        hosts=rights.hosts or (),
    )


def _cut(rights: Rights, most: Grant) -> Grant:
    """What both allow; what the source leaves open is as `most` says."""
    wished = Grant(
        rights.capabilities,
        paths=most.paths if rights.paths is None else tuple(map(_in_project, rights.paths)),
        commands=most.commands if rights.commands is None else rights.commands,
        hosts=most.hosts if rights.hosts is None else rights.hosts,
    )
    return delegate(most, wished)


def _in_project(path: str) -> str:
    return path.removeprefix(_PROJECT)


async def _read(ctx: ToolContext, path: str) -> str:
    content = await ctx.files.read(_in_project(path))
    return content.decode(errors="backslashreplace")


async def _attach(ctx: ToolContext, message: Any) -> Any:  # noqa: ANN401
    """Each file becomes one that has its content in its address."""
    if isinstance(message, list):
        return [await _attach(ctx, item) for item in cast("list[Any]", message)]
    fields = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
    if fields.get("$") != "file":
        return cast("Any", message)
    path = _in_project(str(fields["of"]))
    kind, _ = mimetypes.guess_type(path)
    if kind is None:
        raise ToolFailed(f"{path}: its ending does not say what it is; name it like photo.png")
    content = await ctx.files.read(path)
    if len(content) > _MOST_MEDIA:
        raise ToolFailed(f"{path} has {len(content):,} bytes; at most {_MOST_MEDIA:,} can be sent")
    return {"$": "file", "of": f"data:{kind};base64,{b64encode(content).decode()}"}


async def _write(ctx: ToolContext, path: str, content: str) -> None:
    await ctx.files.write(_in_project(path), content.encode())


async def _exists(ctx: ToolContext, path: str) -> bool:
    try:
        await ctx.files.stat(_in_project(path))
    except ToolFailed:
        return False
    return True


async def _names(ctx: ToolContext, path: str) -> list[str]:
    listing = await ctx.files.list(_in_project(path))
    return sorted(entry.name for entry in listing.entries)


async def _get(ctx: ToolContext, url: str) -> dict[str, Any]:
    answer = await ctx.http.fetch("GET", url)
    return {"status": answer.status, "body": answer.body.decode(errors="backslashreplace")}


async def _post(ctx: ToolContext, url: str, body: str) -> dict[str, Any]:
    answer = await ctx.http.fetch("POST", url, body=body.encode())
    return {"status": answer.status, "body": answer.body.decode(errors="backslashreplace")}


async def _exec(ctx: ToolContext, command: str) -> str:
    ran = await ctx.exec(command)
    if ran.exit_code:
        said = (ran.stderr or ran.stdout).strip()[-_SAID:]
        raise ToolFailed(f"{command} ended with exit code {ran.exit_code}: {said}")
    return ran.stdout


FUNCTIONS: dict[str, Callable[..., Awaitable[Any]]] = {
    "file::read": _read,
    "file::write": _write,
    "file::exists": _exists,
    "file::attach": _attach,
    "file::list": _names,
    "http::get": _get,
    "http::post": _post,
    "exec": _exec,
}
