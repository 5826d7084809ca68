"""`@tool(isolated=True)`: the function runs in a Python of its own, in the sandbox.

    runtime ── {module, name, arguments} ──▶ bubblewrap ─▶ python ─▶ the function
       ◀───────── {result} or {error} ─────────────────────────┘

| its grant has | its `root` there |
|---------------|------------------|
| `fs::write`   | can be written   |
| `fs::read`    | can be read      |
| neither       | is an empty one  |

Python, what is installed for it and all of the function's own package can be read; there is no
network and no variable of ours. So the function need not be trusted, no more than what it answers.
`ctx.files` works there; `ctx.http` and `ctx.exec` do not.
"""

import asyncio
import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vegakit.errors import ToolFailed, UserError
from vegakit.policy import Allowed, Grant, Use, decide
from vegakit.ports import Ran
from vegakit.tools.functions import FunctionTool
from vegakit.tools.rights import Rights
from vegakit.tools.sandboxes import Place, sandboxes_here

__all__ = ["IsolatedTool", "main"]

_ANSWER_BYTES = 2_000_000
_BOOT = "from vegakit.tools.isolated import main; main()"
_SHOWN = 500


class IsolatedTool(FunctionTool):
    def __init__(self, function: Callable[..., Any], root: Path, grant: Grant, **rest: Any) -> None:  # noqa: ANN401
        super().__init__(function, **rest)
        self._root, self._grant = root, grant
        self._found_by = _importable(function)
        if "deps" in self._given:
            raise self._not_isolated("takes `deps`, which cannot be sent; give it arguments")

    @property
    def brings_text(self) -> bool:
        """It need not be trusted, and nor is what it says."""
        return True

    def rights(self, arguments: Mapping[str, Any]) -> Rights:
        return replace(super().rights(arguments), sandboxed=True)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        del deps
        self._check(arguments)
        if getattr(self._found_there(), "_function", None) is not self._function:
            raise self._not_isolated("is not what its module has under that name; rename one")
        ran = await sandboxes_here().run(_python(), self._place(), self._request(arguments))
        return _answer(self.spec.name, ran)

    async def value(self, arguments: Mapping[str, Any], deps: object) -> object:
        raise ToolFailed(
            f"{self.spec.name} runs in the sandbox and answers in words: it is for agents; "
            "let the program ask an agent that has it"
        )

    async def call_here(self, arguments: Mapping[str, Any]) -> str:
        """Inside: the working directory is its root."""
        from vegakit.tools.granted import ToolContext

        self._context = ToolContext(Path(), self._grant)
        return await super().call(arguments, None)

    def _request(self, arguments: Mapping[str, Any]) -> bytes:
        module, name = self._found_by
        place = str(_package(module).parent)
        wanted = {"module": module, "name": name, "place": place, "arguments": dict(arguments)}
        return json.dumps(wanted).encode()

    def _found_there(self) -> object:
        module, name = self._found_by
        return getattr(sys.modules[module], name, None)

    def _place(self) -> Place:
        from vegakit.tools.sandbox import Limits

        readable = (*_interpreter(), _package("vegakit"), _package(self._found_by[0]))
        limits = Limits(wall_ms=self.timeout_ms, kept_bytes=_ANSWER_BYTES)
        writable = self._may("fs::write")
        workspace = self._root.resolve() if writable or self._may("fs::read") else None
        return Place(workspace, writable, _outermost(readable), limits)

    def _may(self, capability: str) -> bool:
        return isinstance(decide(self._grant, Use(capability)), Allowed)

    def _not_isolated(self, why: str) -> UserError:
        return UserError(f"tool {self.spec.name} cannot be isolated: it {why}")


def _importable(function: Callable[..., Any]) -> tuple[str, str]:
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or not name.isidentifier():
        raise UserError(
            f"tool {name} cannot be isolated: another Python must import it, and it stands in "
            f"{'the script that was started' if module == '__main__' else 'no module by a name'}; "
            "put it at the top level of a module of its own, as `def`"
        )
    return module, name


def _python() -> list[str]:
    return [sys.executable, "-I", "-X", "utf8", "-c", _BOOT]


def _interpreter() -> list[Path]:
    """Not the whole folders: settings with passwords may lie beside."""
    parts = ("bin", "lib", "lib64", "pyvenv.cfg")
    return [Path(home, part) for home in (sys.base_prefix, sys.prefix) for part in parts]


def _package(module: str) -> Path:
    """The folder or file that the module's outermost package is imported from."""
    spec = sys.modules[module.partition(".")[0]].__spec__
    places = [] if spec is None else [*(spec.submodule_search_locations or [spec.origin or ""])]
    if not places or not Path(places[0]).exists():
        raise UserError(f"{module} comes from no file, so no other Python can import it")
    return Path(places[0]).resolve()


def _outermost(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Each once, and none that the sandbox has already."""
    found = {path.resolve() for path in paths if path.exists()} - {Path("/usr")}
    inner = {path for path in found if {Path("/usr"), *found} & {*path.parents}}
    return tuple(sorted(found - inner))


class _Answer(Struct):
    result: str | None = None
    error: str = ""


def _answer(name: str, ran: Ran) -> str:
    """It may say anything."""
    try:
        answer = msgspec.json.decode(ran.stdout, type=_Answer)
    except (msgspec.MsgspecError, RecursionError):
        why = "; ".join((*ran.notes, ran.stderr.strip()[-_SHOWN:])) or "it said nothing"
        answer = _Answer(error=f"it ended with exit code {ran.exit_code}: {why}")
    if answer.result is None:
        raise ToolFailed(f"{name}: {answer.error}")
    return answer.result


def main() -> None:
    """Inside. What the function prints is not its answer."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    sys.path.append(request["place"])
    found = getattr(importlib.import_module(request["module"]), request["name"])
    with answers:
        json.dump(asyncio.run(_outcome(found, request["arguments"])), answers)


async def _outcome(found: IsolatedTool, arguments: Mapping[str, Any]) -> dict[str, str]:
    """It runs as a task of its own, so that whatever it raises is looked at, not caught."""
    task = asyncio.ensure_future(found.call_here(arguments))
    await asyncio.wait([task])
    raised = task.exception()
    return {"error": f"{type(raised).__name__}: {raised}"} if raised else {"result": task.result()}
