"""A server as `vega.toml` describes it; what is secret is read from where the file says it is."""

from pathlib import Path

from vegakit.config import Key, McpTable, Settings, SourceKind, parse_duration_ms
from vegakit.errors import SettingsError
from vegakit.tools.mcp.servers import McpServer

__all__ = ["mcp_server"]

_FILES = {SourceKind.USER, SourceKind.PROJECT}


async def mcp_server(settings: Settings, name: str, *, to_look_at: bool = False) -> McpServer:
    """One `to_look_at` is not started, so no secret is read."""
    table = settings.mcp.get(name)
    if table is None:
        known = f"it has {', '.join(settings.mcp)}" if settings.mcp else "it has none"
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
