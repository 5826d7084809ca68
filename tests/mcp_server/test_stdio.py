"""`vega mcp` as clients start it: a process of its own, on its standard input and output."""

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from tests.mcp_server.stage import ASK, Caller, furnished
from tests.patience import until

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "plain", "version": "1"},
    },
}
SLEEPING = 'program may [process::exec] allowed_commands ["sleep **"]\nprint(exec("sleep {s}"));\n'


def command(folder: Path, *flags: str) -> StdioServerParameters:
    root = furnished(folder)
    (root / "vega.toml").write_text('[models]\nfast = "scripted:script.json"\n')
    (root / "script.json").write_text('{"matches": {"": "an answer"}}')
    words = ["-m", "vegakit", "mcp", "--root", str(root), *flags]
    own = {"VEGA_DATA_DIR": str(folder / "data"), "HOME": str(folder), "PYTHONUTF8": "1"}
    own["VEGA_TRUSTED_FOLDERS"] = str(root)
    return StdioServerParameters(
        command=sys.executable, args=words, env={"PATH": os.environ["PATH"], **own}
    )


async def test_every_tool_answers_over_stdio(tmp_path: Path) -> None:
    """With models and budget as vega.toml and flags say."""
    async with Client(command(tmp_path, "--budget", "$0.5")) as client:
        call = Caller(client)
        assert (await call("check", source=ASK)).text == "in order"
        assert (await call("cost", path="ask.vega")).page["left"] == "$0.50"
        assert (await call("explain", path="ask.vega")).page["not_granted"] == []
        ran = await call("run", path="ask.vega")
        assert ran.page["printed"] == "an answer\n"
        assert (await call("ps")).page["processes"] == []
        assert (await call("kill", id="run-1")).refused
        assert (await call("card")).text.startswith("# Vega")
        assert (await call("run", path="link.vega")).refused


class Plain:
    """A client by hand, which hangs up when it likes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    def send(self, message: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def hear(self) -> str:
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode()


@asynccontextmanager
async def plain_client(given: StdioServerParameters) -> AsyncGenerator[Plain]:
    process = await asyncio.create_subprocess_exec(
        given.command,
        *given.args,
        env=given.env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    client = Plain(process)
    client.send(HELLO)
    await client.hear()
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    try:
        yield client
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def is_running(argument: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if argument.encode() in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("end", ["hangs up", "SIGTERM"])
async def test_a_server_ends_with_its_client_and_takes_all_along(tmp_path: Path, end: str) -> None:
    """Runs, and the commands that they started."""
    unlike = f"86{secrets.randbelow(10**6):06}"
    given = command(tmp_path, "--may-run", "sleep **")
    async with plain_client(given) as client:
        run = {"name": "run", "arguments": {"source": SLEEPING.replace("{s}", unlike)}}
        client.send({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": run})
        await until(lambda: is_running(unlike))
        if end == "hangs up":
            assert client.process.stdin is not None
            client.process.stdin.close()
        else:
            client.process.send_signal(signal.Signals[end])
        async with asyncio.timeout(30):
            await client.process.wait()
        await until(lambda: not is_running(unlike))
        assert client.process.returncode == 0
