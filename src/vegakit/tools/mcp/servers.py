"""An MCP server as a person describes it, in code or in `vega.toml`, and what it may ask of a
model.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from vegakit.config import Key, McpTable, Settings, SourceKind, parse_duration_ms
from vegakit.conversation import Message
from vegakit.errors import SettingsError, UserError
from vegakit.ids import Digest
from vegakit.policy import Allowed, Denied, Fetch, Grant, Untrusted, Use, decide, parse_url
from vegakit.ports import Model
from vegakit.records import digest128
from vegakit.tools.sandbox import SandboxKind


class McpSamplingRequest(Struct, frozen=True):
    """The last message is the user's. `system` is the server's wish, no more."""

    messages: tuple[Message, ...]
    system: Untrusted
    max_tokens: int


class McpSamplingResult(Struct, frozen=True):
    """The answer of a model to a server."""

    text: str
    model: str


SamplingHandler: TypeAlias = Callable[[McpSamplingRequest], Awaitable[McpSamplingResult]]
"""Pays from the server's own budget; raises `BudgetExceeded` when that is used up."""


# An MCP server as a person describes it: how it is reached, and what it may do.
#
# A command runs in the sandbox and has no network. A URL is reached over HTTP, at its own host
# only.
#
# | `capabilities`       | the server's `folder` is            | a call                            |
# |----------------------|-------------------------------------|-----------------------------------|
# | none                 | read                                | is asked about, or refused        |
# | without `fs::write`  | read                                | is made                           |
# | with `fs::write`     | read and written                    | is made                           |
#
# Without a `folder` a command has an empty one of its own, which is gone when it ends.


_NAME = re.compile("[a-z][a-z0-9-]{0,30}")
_WRITE = Use("fs::write")


@dataclass(frozen=True, kw_only=True)
class McpServer:
    """Either `command` or `url`. Of a command, `readable` are folders beside its own that it needs,
    such as another Python, `path` those that are searched for programs, and `env` are all its
    variables. `headers` go with every request, `hosts` are addresses of this machine or its network
    that the URL may lead to. `sampling` is what the server may spend in all on models of ours, out
    of the wallet of who calls it; without it, it may ask none."""

    name: str
    command: Sequence[str] = ()
    url: str = ""
    folder: str | Path | None = None
    readable: Sequence[str | Path] = ()
    path: Sequence[str | Path] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    hosts: Sequence[str] = ()
    capabilities: Sequence[str] = ()
    only: Sequence[str] = ()
    sampling: str | float | None = None
    sampling_model: str | Model = "fast"
    timeout: float = 60.0
    sandbox: SandboxKind = SandboxKind.AUTO

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UserError(
                f"{self.name!r} cannot name an MCP server; take a small letter, then at most 30 "
                "small letters, digits or -"
            )
        if bool(self.command) == bool(self.url):
            raise UserError(f"MCP server {self.name} has either a command or a url; give it one")
        Grant(tuple(self.capabilities))
        self.net_grant  # noqa: B018  (a wrong URL is told here)

    @property
    def identity(self) -> Digest:
        """Return a digest of what is started or reached: another command is another server."""
        return Digest(digest128([[*self.command], self.url]))

    @property
    def place(self) -> str:
        """Return the command or address for people. A part after a ? may be a secret and is not
        shown."""
        path, mark, _ = self.url.partition("?")
        return f"{path}{mark}{'…' * bool(mark)}" or " ".join(map(repr, self.command))

    @property
    def may_write(self) -> bool:
        """Return whether the server may write to its folder."""
        return isinstance(decide(Grant(tuple(self.capabilities), paths=("**",)), _WRITE), Allowed)

    @property
    def net_grant(self) -> Grant:
        """Return the grant for the server's own host."""
        if not self.url:
            return Grant()
        asked = parse_url("POST", self.url)
        if isinstance(asked, Denied):
            raise UserError(f"MCP server {self.name}: {asked.reason}")
        assert isinstance(asked, Fetch)
        return Grant(("net",), hosts=(f"{asked.host}:{asked.port}", *self.hosts))

    @property
    def timeout_ms(self) -> int:
        """Return how long a call may take."""
        return round(self.timeout * 1000)


# A server as `vega.toml` describes it; what is secret is read from where the file says it is.


_FILES = {SourceKind.USER, SourceKind.PROJECT}


async def mcp_server(settings: Settings, name: str, *, to_look_at: bool = False) -> McpServer:
    """One `to_look_at` is not started, so no secret is read."""
    table = settings.mcp.get(name)
    if table is None:
        known = (
            f"it has {', '.join(settings.mcp)}"
            if settings.mcp
            else f"write [mcp.{name}] with a command or a url"
        )
        raise SettingsError(f"vega.toml describes no MCP server {name!r}; {known}")
    start = _start(settings, name)
    return McpServer(
        name=name,
        command=table.command,
        url=table.url or "",
        folder=None if table.folder is None else start / table.folder,
        readable=[start / folder for folder in table.readable],
        path=[start / folder for folder in table.path],
        env={} if to_look_at else await _variables(settings, table),
        headers={} if to_look_at else await _headers(settings, table),
        hosts=table.hosts,
        capabilities=table.capabilities,
        only=table.only,
        sampling=table.sampling,
        sampling_model=table.sampling_model,
        timeout=parse_duration_ms(table.timeout) / 1000,
    )


def _start(settings: Settings, name: str) -> Path:
    """Relative paths start at the directory of the file they are written in."""
    names = (key for key in settings.sources if key.startswith(f"mcp.{name}."))
    source = settings.sources.get(next(names, ""))
    return Path(source.place).parent if source and source.kind in _FILES else Path()


async def _variables(settings: Settings, table: McpTable) -> dict[str, str]:
    return {variable: await _secret(settings, variable) for variable in table.env}


async def _headers(settings: Settings, table: McpTable) -> dict[str, str]:
    if table.bearer is None:
        return {}
    return {"Authorization": f"Bearer {await _secret(settings, table.bearer)}"}


async def _secret(settings: Settings, variable: str) -> str:
    return await settings.keys.find("", Key(env=variable)).read()
