"""Keys are read when a call needs them and are never kept, written or shown.

| from a     | written as                                 | the key is                             |
|------------|--------------------------------------------|----------------------------------------|
| variable   | `{ env = "OPENAI_API_KEY" }`               | its value at that moment               |
| command    | `{ command = ["pass", "show", "openai"] }` | the first line it prints before its    |
|            |                                            | deadline; no shell reads its words     |
| function   | in Python only                             | what it returns, awaited if need be    |
"""

import asyncio
import inspect
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

from vegakit.config.tables import Key
from vegakit.config.texts import parse_duration_ms
from vegakit.errors import SettingsError

__all__ = [
    "CommandKey",
    "EnvironmentKey",
    "FunctionKey",
    "KeyFinder",
    "KeyFunction",
    "KeySource",
]

KeyFunction: TypeAlias = Callable[[], str | Awaitable[str]]

_FUNCTION_TIMEOUT_S = 30
_MAX_PRINTED = 65_536


class KeySource(Protocol):
    """Shown as where the key comes from."""

    def read(self) -> Awaitable[str]: ...


class EnvironmentKey:
    def __init__(self, variable: str, environment: Mapping[str, str]) -> None:
        self.variable = variable
        self._environment = environment

    def __repr__(self) -> str:
        return f"env {self.variable}"

    async def read(self) -> str:
        text = self._environment.get(self.variable, "")
        return _key(text, f"the variable {self.variable} holds no key; set it in your shell")


class CommandKey:
    def __init__(
        self, command: tuple[str, ...], timeout_ms: int, environment: Mapping[str, str]
    ) -> None:
        self._command = command
        self._timeout_s = timeout_ms / 1_000
        self._environment = environment

    def __repr__(self) -> str:
        """Its other words may hold a secret."""
        return f"command {self._command[0]}"

    async def read(self) -> str:
        try:
            async with asyncio.timeout(self._timeout_s):
                printed, status = await self._run()
        except TimeoutError as error:
            raise self._failed(f"took longer than {self._timeout_s:g} s") from error
        except (OSError, ValueError) as error:
            raise self._failed(f"could not be started: {error}") from error
        if status:
            raise self._failed(f"ended with status {status}")
        line = printed.decode(errors="replace").partition("\n")[0]
        return _key(line, str(self._failed("printed no key in its first line")))

    async def _run(self) -> tuple[bytes, int | None]:
        """Closing the transport kills the command and lets go of a pipe its children still hold."""
        transport, output = await asyncio.get_running_loop().subprocess_exec(
            _Output,
            *self._command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            env=dict(self._environment),
        )
        try:
            await output.ended.wait()
            return output.printed, transport.get_returncode()
        finally:
            transport.close()
            await output.ended.wait()

    def _failed(self, what: str) -> SettingsError:
        return SettingsError(
            f"the command {self._command[0]} that prints a provider's key {what}; "
            "run it by hand to see why"
        )


class _Output(asyncio.SubprocessProtocol):
    """The beginning of what a command prints; the rest is read and dropped, so that it can end."""

    def __init__(self) -> None:
        self.printed = b""
        self.ended = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.printed = (self.printed + data)[:_MAX_PRINTED]

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


class FunctionKey:
    def __init__(self, function: KeyFunction) -> None:
        self._function = function

    def __repr__(self) -> str:
        return "a Python function"

    async def read(self) -> str:
        key = self._function()
        if inspect.isawaitable(key):
            key = await self._in_time(key)
        return _key(key, "the Python function that finds a provider's key returned no key")

    async def _in_time(self, key: Awaitable[str]) -> str:
        try:
            async with asyncio.timeout(_FUNCTION_TIMEOUT_S):
                return await key
        except TimeoutError as error:
            raise SettingsError(
                "the Python function that finds a provider's key took longer than "
                f"{_FUNCTION_TIMEOUT_S} s; make it quicker"
            ) from error


class KeyFinder:
    """Knows where the key of each provider is; a function given in code comes first."""

    def __init__(
        self, environment: Mapping[str, str], functions: Mapping[str, KeyFunction]
    ) -> None:
        self._environment = environment
        self._functions = functions

    def __repr__(self) -> str:
        return "KeyFinder()"

    def find(self, provider: str, key: Key | None) -> KeySource:
        if provider in self._functions:
            return FunctionKey(self._functions[provider])
        if key and key.command:
            timeout_ms = parse_duration_ms(key.timeout)
            return CommandKey(key.command, timeout_ms, self._environment)
        variable = key.env if key else f"{provider.upper().replace('-', '_')}_API_KEY"
        return EnvironmentKey(variable, self._environment)


def _key(text: str, problem: str) -> str:
    key = text.strip()
    if not key or not key.isprintable():
        raise SettingsError(problem)
    return key
