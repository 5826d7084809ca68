"""OS children, and the box they run in."""

from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypedDict

from msgspec import Struct

from vegakit.errors import UserError

__all__ = [
    "ChildInput",
    "ChildOutput",
    "Guard",
    "Guarded",
    "GuardsOutdatedError",
    "Launched",
    "Launcher",
    "Ran",
    "Sandbox",
]


class ChildOutput(Protocol):
    def read(self, n: int = -1) -> Coroutine[Any, Any, bytes]: ...

    def readline(self) -> Coroutine[Any, Any, bytes]: ...


class ChildInput(Protocol):
    def write(self, data: bytes) -> None: ...

    def drain(self) -> Coroutine[Any, Any, None]: ...

    def close(self) -> None: ...


class Launched(Protocol):
    """A command and everything it started."""

    @property
    def pid(self) -> int: ...

    @property
    def stdin(self) -> ChildInput | None: ...

    @property
    def stdout(self) -> ChildOutput: ...

    @property
    def stderr(self) -> ChildOutput: ...

    def wait(self) -> Coroutine[Any, Any, int]:
        """The exit code, negative for a signal, when the whole tree is gone."""
        ...

    def end(self, grace_ms: int = ...) -> Coroutine[Any, Any, int]: ...


class Guard(TypedDict):
    """`how` is "pin", "freeze" or "hide"; `id` the device and inode that must be there; `below` are
    guards in it, by name."""

    id: list[int]
    how: str
    below: "dict[str, Guard]"


class Guarded(TypedDict):
    """What of a folder a child cannot move, change or read. `fd` is the descriptor under which it
    finds `root`, or -1; `empty` is an empty file, shown in the place of what is hidden."""

    root: str
    id: list[int]
    fd: int
    empty: str
    below: dict[str, Guard]


class GuardsOutdatedError(UserError):
    """What was to be guarded is no longer what was found; look again."""


class Launcher(Protocol):
    """The one owner of OS children."""

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        owner: str,
        stdin: int = ...,
        opens: Mapping[int, str] = ...,
        groups: Mapping[str, Mapping[str, str]] = ...,
        guards: Guarded | None = ...,
    ) -> Coroutine[Any, Any, Launched]: ...


class Ran(Struct, frozen=True):
    """What a command did. `notes` say what was done to it: ended, cut, set aside."""

    exit_code: int
    stdout: str
    stderr: str
    duration_ms: int
    notes: tuple[str, ...] = ()


class Sandbox(Protocol):
    """Runs commands where they can do no harm, or not at all."""

    @property
    def name(self) -> str: ...

    def run(self, argv: Sequence[str], *, owner: str, said: bytes = b"") -> Awaitable[Ran]:
        """`said` is what it reads."""
        ...

    def serve(
        self, argv: Sequence[str], *, owner: str, env: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Launched]:
        """A command that is spoken to while the block lasts, and ends with it. Of our variables it
        has none, of `env` all."""
        ...
