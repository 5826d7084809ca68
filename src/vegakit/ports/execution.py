"""Ports of execution: time, the host of a program, models, tools, and OS children with the sandbox
they run in.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypedDict

from msgspec import Struct

from vegakit.conversation import ModelChunk, ModelReply, ModelRequest, Tokenizer, ToolSpec
from vegakit.effects import Effect
from vegakit.errors import UserError
from vegakit.events import HostEvent
from vegakit.ids import EffectKey
from vegakit.prices import PriceRow

# Time and effects: what a program's host must do.


class Clock(Protocol):
    """Tells the time in milliseconds, and waits for it."""

    def now(self) -> int:
        """Steady milliseconds: set by the wall clock once, then moved by the monotonic clock only.

        So a clock that is stepped by an hour neither opens a rate limit nor stalls a timer.
        """
        ...

    def wait_until(self, at_ms: int) -> Coroutine[Any, Any, None]:
        """Return at this time, or at once if it has passed."""
        ...


class Host(Protocol):
    """Carries out what a program decided; answers come back as events, never as return values."""

    def start(self, effect: Effect, *, speculative: bool = False) -> None:
        """If it was cancelled and has not landed, it begins when it has: a key is never under way
        twice, and its outcomes come in the order in which it was started."""
        ...

    def commit(self, key: EffectKey) -> None:
        """The program has come to what was begun speculatively. Before that only an answer of it
        is kept: a refusal or a failure may not be met when its turn comes."""
        ...

    def cancel(self, key: EffectKey, *, late: bool = False) -> None:
        """The latest that was started under this key. Of one that has landed speculatively: it is
        not wanted, and will not be committed."""
        ...

    def next(self) -> Awaitable[Sequence[HostEvent]]:
        """Return at least one event, in program order. Raises what ends the program:
        `ProgramChanged`, or a journal that fails."""
        ...

    @property
    def now(self) -> int:
        """Return the time that events carry."""
        ...


# Models and tools: what the gate calls.


class Model(Protocol):
    """One model of one provider. Only the gate calls it; it never retries and never waits its turn.

    Failures are `WorldError`s with class, phase and retry-after. Cancelling a call, or closing a
    stream early, closes its connection.
    """

    @property
    def name(self) -> str:
        """`provider:name`, as prices and traces know it."""
        ...

    @property
    def price(self) -> PriceRow | None:
        """None fails closed: what has no price is not called."""
        ...

    @property
    def context_tokens(self) -> int | None:
        """Return the size of the model's window; None if nobody knows it."""
        ...

    @property
    def default_max_tokens(self) -> int:
        """Return how long an answer may be if nobody says."""
        ...

    def bound_input(self, request: ModelRequest) -> int:
        """No fewer tokens than the provider will bill as input, worked out without asking it."""
        ...

    def ask(self, request: ModelRequest) -> Awaitable[ModelReply]:
        """Ask once, and return the reply."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        """Deltas, then the whole reply as the last chunk."""
        ...


def tokenizer_of(model: Model) -> Tokenizer | None:
    """Return what counts the tokens of text for a model that has such a thing. `bound_input` counts
    by it then; a model without one counts by its own rule, such as a token for each byte."""
    return getattr(model, "tokenizer", None)


class Tool(Protocol):
    """A function that a model may call, with the rights it declares."""

    @property
    def spec(self) -> ToolSpec:
        """Return what the model is told about it."""
        ...

    @property
    def idempotent(self) -> bool:
        """Return whether calling it again with the same arguments does no harm."""
        ...

    @property
    def timeout_ms(self) -> int:
        """Return how long a call may take."""
        ...

    def call(self, arguments: Mapping[str, Any], deps: object) -> Awaitable[str]:
        """Raises what it raises; the gate turns it into an error result that the model sees."""
        ...


# OS children, and the box they run in.


class ChildOutput(Protocol):
    """An output of a child, read as it comes."""

    def read(self, n: int = -1) -> Coroutine[Any, Any, bytes]:
        """Return the next bytes, at most `n` of them, or all that come; empty at the end."""
        ...

    def readline(self) -> Coroutine[Any, Any, bytes]:
        """Return the next line; empty at the end."""
        ...


class ChildInput(Protocol):
    """The input of a child."""

    def write(self, data: bytes) -> None:
        """Queue bytes for the child."""
        ...

    def drain(self) -> Coroutine[Any, Any, None]:
        """Wait until the child has taken enough of them."""
        ...

    def close(self) -> None:
        """End the input."""
        ...


class LaunchedChild(Protocol):
    """A command and everything it started."""

    @property
    def pid(self) -> int:
        """Return its process id."""
        ...

    @property
    def stdin(self) -> ChildInput | None:
        """Return its input; None if it has none."""
        ...

    @property
    def stdout(self) -> ChildOutput:
        """Return its output."""
        ...

    @property
    def stderr(self) -> ChildOutput:
        """Return what it writes about errors."""
        ...

    def wait(self) -> Coroutine[Any, Any, int]:
        """Return the exit code, negative for a signal, when the whole tree is gone."""
        ...

    def end(self, grace_ms: int = ...) -> Coroutine[Any, Any, int]:
        """End the whole tree, by force after the grace, and return the exit code."""
        ...


class PathGuard(TypedDict):
    """`how` is "pin", "freeze" or "hide"; `id` the device and inode that must be there; `below` are
    guards in it, by name."""

    id: list[int]
    how: str
    below: "dict[str, PathGuard]"


class GuardedFolder(TypedDict):
    """Says what of a folder a child cannot move, change or read. `fd` is the descriptor under which
    it finds `root`, or -1; `empty` is an empty file, shown in the place of what is hidden."""

    root: str
    id: list[int]
    fd: int
    empty: str
    below: dict[str, PathGuard]


class GuardsOutdatedError(UserError):
    """Raised when what was to be guarded is no longer what was found; look again."""


class ChildLauncher(Protocol):
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
        guards: GuardedFolder | None = ...,
    ) -> Coroutine[Any, Any, LaunchedChild]: ...


class CommandResult(Struct, frozen=True):
    """Says what a command did. `notes` say what was done to it: ended, cut, set aside; those of
    them that tell of files in the workspace, which a person should hear too, are `about_files`."""

    exit_code: int
    stdout: str
    stderr: str
    duration_ms: int
    notes: tuple[str, ...] = ()
    about_files: tuple[str, ...] = ()


class Sandbox(Protocol):
    """Runs commands where they can do no harm, or not at all."""

    @property
    def name(self) -> str:
        """Return what people call it."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        owner: str,
        said: bytes = b"",
        on_output: Callable[[bytes], object] | None = None,
    ) -> Awaitable[CommandResult]:
        """`said` is what it reads; `on_output` is called with each piece of what it says."""
        ...

    def serve(
        self, argv: Sequence[str], *, owner: str, env: Mapping[str, str]
    ) -> AbstractAsyncContextManager[LaunchedChild]:
        """A command that is spoken to while the block lasts, and ends with it. Of our variables it
        has none, of `env` all."""
        ...
