"""Where a setting is seen to act: a home with a `vega.toml` of its own, a provider on a socket, and
whatever else a setting may lead to (another provider, a proxy, a collector, a PostgreSQL schema, an
MCP server).

What is started here is a process of the installed wheel that knows nothing of this campaign. A
scene tells what was seen of it from outside, as one line.
"""

import json
import re
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

import psycopg
from msgspec import UNSET
from msgspec.structs import replace

from campaigns.contract.stage import Done, Stage, require
from campaigns.telemetry_receivers import Received, grpc_receiver, http_receiver
from vegakit.testing import (
    Failure,
    Provider,
    ProviderAnswer,
    ProviderReply,
    ProviderRequest,
    ProviderToolCall,
)
from vegakit.testing.provider.script import default_answer

POSTGRES = "postgresql://127.0.0.1:5432/test"
_FAILS = re.compile(r"fail:(\d+)")
_LONG = 700_000
"""Characters of an answer of which two are more than the smallest journal holds."""
_NAMED = re.compile(r"<(\w+)>")

ASKS = """\
import asyncio, json, sys
from pathlib import Path
from vegakit import Agent, Runtime, tool

plan = json.loads(sys.argv[1])

@tool(capabilities=["fs::write"])
async def pay(amount: int) -> str:
    '''Pay an amount in dollars.'''
    with Path("paid.txt").open("a") as file:
        file.write(f"{amount} ")
    return "paid"

agent = Agent("writer", max_tokens=50, tools=[pay] if plan.get("pays") else [],
              model=plan.get("model", "fast"), instructions=plan.get("says", ""))

async def ask(rt, text):
    try:
        await rt.ask(agent, text, timeout=plan.get("timeout"))
    except Exception as error:
        print(error, file=sys.stderr)
        return type(error).__name__
    return "ok"

async def main():
    results = []
    async with Runtime.from_config() as rt:
        for group in plan["groups"]:
            results += await asyncio.gather(*(ask(rt, text) for text in group))
            await asyncio.sleep(plan.get("pause", 0))
        print(json.dumps({"results": results, "spent": f"{await rt.spent():.6f}"}))

asyncio.run(main())
"""

SPAWNS = """\
import asyncio, sys
from vegakit import Runtime

async def deep(levels):
    if levels:
        return await rt.spawn(deep, name=f"below{levels}").ask(levels - 1)
    return "ok"

async def wide(children):
    made = [rt.spawn(deep, name=f"child{number}") for number in range(children)]
    return [await one.ask(0) for one in made] and "ok"

async def main():
    global rt
    async with Runtime.from_config() as rt:
        try:
            print(await rt.spawn({"deep": deep, "wide": wide}[sys.argv[1]]).ask(int(sys.argv[2])))
        except Exception as error:
            print(error)

asyncio.run(main())
"""

CALLS = """\
import asyncio, json, sys
from vegakit import Runtime

async def main():
    async with Runtime.from_config() as rt:
        try:
            tools = await rt.mcp.tools("notes", accept=True)
            if sys.argv[1] == "list":
                print(" ".join(sorted(tool.spec.name for tool in tools)))
                return
            called = next(tool for tool in tools if tool.spec.name == f"notes__{sys.argv[1]}")
            print(await called.call(json.loads(sys.argv[2]), None))
        except Exception as error:
            print(type(error).__name__)
            print(error, file=sys.stderr)

asyncio.run(main())
"""

MCP_SERVER = """\
import json, os, sys, time

def sample(asked):
    said = {"role": "user", "content": {"type": "text", "text": asked["prompt"]}}
    write({"id": "ours", "method": "sampling/createMessage",
           "params": {"messages": [said], "maxTokens": 50}})
    answer = next(a for a in map(json.loads, sys.stdin) if a.get("id") == "ours")
    return answer.get("result", {}).get("content", {}).get("text", "refused")

TOOLS = {
    "echo": lambda asked: "echoed",
    "environment": lambda asked: os.environ.get(asked["name"], "nothing"),
    "read": lambda asked: open(asked["path"]).read(),
    "sample": sample,
    "sleep": lambda asked: time.sleep(asked["s"]) or "slept",
}

def write(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def result(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"}}
    if method == "tools/list":
        schema = {"type": "object"}
        return {"tools": [{"name": n, "description": n, "inputSchema": schema} for n in TOOLS]}
    try:
        text, failed = TOOLS[params["name"]](params.get("arguments") or {}), False
    except OSError as error:
        text, failed = type(error).__name__, True
    return {"content": [{"type": "text", "text": text}], "isError": failed}

if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked and "method" in asked:
            write({"id": asked["id"], "result": result(asked["method"], asked.get("params") or {})})
"""


class House(Stage):
    """`<name>` in the text of a setting stands for the attribute of this name, which is made when
    it is first named."""

    def __init__(self, bin_folder: Path, folder: Path) -> None:
        super().__init__(bin_folder, folder)
        self._opened = ExitStack()
        self.repeated_calls = 0
        self.write({"asks.py": ASKS, "spawns.py": SPAWNS, "calls.py": CALLS})
        (self.folder / "server.py").write_text(MCP_SERVER, encoding="utf-8")

    # What the settings say.

    def settle_in(self, settings: str) -> None:
        """Write the user's own file, which is trusted."""
        file = self.home / ".config" / "vega" / "vega.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.filled_in(settings), encoding="utf-8")

    def filled_in(self, text: str) -> str:
        """Return a text with the values of what it names."""
        return _NAMED.sub(lambda name: str(getattr(self, name[1])), text)

    # What the model says: the words of the last user message choose, as everywhere in tests.

    def answer(self, request: ProviderRequest) -> ProviderAnswer:
        if request.tools and request.tool_results < len(self.calls):
            call = ProviderToolCall(next(iter(request.tools)), self.calls[request.tool_results])
            return ProviderReply(calls=[call], usage=self.usage)
        if found := _FAILS.search(request.text):
            return Failure(int(found[1]))
        if any(word in request.text for word in self.held):
            return default_answer(replace(request, text="hang"))
        if request.text == "long":
            return ProviderReply("w" * _LONG, usage=self.usage)
        answer = default_answer(request)
        if isinstance(answer, ProviderReply) and answer.usage is UNSET:
            return replace(answer, usage=self.usage)
        return answer

    # What settings lead to.

    @cached_property
    def other(self) -> Provider:
        return self._opened.enter_context(Provider(self.answer).in_thread())

    @property
    def provider_url(self) -> str:
        return self.provider.url

    @property
    def other_url(self) -> str:
        return self.other.url

    @cached_property
    def receiver(self) -> Received:
        return self._opened.enter_context(http_receiver())

    @cached_property
    def grpc(self) -> Received:
        return self._opened.enter_context(grpc_receiver())

    @property
    def collector(self) -> str:
        return self.receiver.endpoint

    @property
    def grpc_collector(self) -> str:
        return self.grpc.endpoint

    @cached_property
    def listener(self) -> "Listener":
        return self._opened.enter_context(listening())

    @property
    def proxy(self) -> str:
        return f"http://127.0.0.1:{self.listener.port}"

    @cached_property
    def ca_file(self) -> Path:
        """The certificate of 127.0.0.1 that is its own authority, with its key beside it."""
        made = self.folder / "ca.pem"
        subprocess.run(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
            "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 "
            f"-keyout {made}.key -out {made}".split(),
            check=True,
            capture_output=True,
        )
        return made

    @cached_property
    def tls(self) -> "Listener":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.ca_file, f"{self.ca_file}.key")
        return self._opened.enter_context(listening(context))

    @cached_property
    def free_port(self) -> int:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            return one.getsockname()[1]

    @cached_property
    def schema(self) -> str:
        name = f"settings_{uuid4().hex[:12]}"
        self._opened.callback(_sql, f"DROP SCHEMA IF EXISTS {name} CASCADE")
        return name

    @property
    def server_url(self) -> str:
        return f"{POSTGRES}?schema={self.schema}"

    def rows_of(self, table: str) -> int:
        """Return how many rows a table of the schema has, 0 if there is none."""
        ((name,),) = _sql(f"SELECT to_regclass('{self.schema}.{table}')")
        return 0 if name is None else _sql(f"SELECT count(*) FROM {name}")[0][0]

    @cached_property
    def mcp(self) -> "McpWeb":
        return self._opened.enter_context(mcp_web())

    @property
    def mcp_port(self) -> int:
        return self.mcp.port

    @cached_property
    def elsewhere(self) -> Path:
        """A folder outside of the project and of the home, with an interpreter and a note."""
        made = self.folder.parent / "elsewhere"
        (made / "bin").mkdir(parents=True)
        (made / "note.txt").write_text("noted", encoding="utf-8")
        interpreter = made / "bin" / "interpreter"
        interpreter.write_text('#!/bin/sh\nexec python3 "$@"\n', encoding="utf-8")
        interpreter.chmod(0o755)
        return made

    # What is seen.

    def asks(self, *groups: list[str], **plan: Any) -> dict[str, Any]:
        """Return what the script of asks printed."""
        done = self.run("python", "asks.py", json.dumps({"groups": groups, **plan}))
        require(done.code == 0, f"the asks failed: {done}")
        return done.page

    def has(self, name: str) -> bool:
        return any(self.home.rglob(name)) or any(self.folder.rglob(name))

    def runs(self) -> list[dict[str, Any]]:
        done: Done = self.run("vega", "runs", "--json")
        return done.page if done.code == 0 else []

    def clear(self) -> None:
        super().clear()
        self._opened.close()


Scene: TypeAlias = Callable[[House], str]
"""Plays with the settings of the house, and tells in a line what was seen."""


class Row(NamedTuple):
    """A key, a change of it, and what is seen: `before` with the settings `given` alone, `after`
    with the change as well."""

    key: str
    change: str
    scene: Scene
    before: str
    after: str
    given: str = ""


def _sql(command: str) -> list[Any]:
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        done = connection.execute(command.encode())
        return done.fetchall() if done.description else []


# Somebody who listens, notes the first line that is sent, and says nothing that helps.


class Listener:
    """What was said to a port, by first lines."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.heard: list[str] = []


@contextmanager
def listening(tls: ssl.SSLContext | None = None) -> Generator[Listener]:
    """Listen on a port of this machine; with `tls` only whoever trusts us says a line."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = Listener(server.getsockname()[1])

        def serve() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:  # closed: nobody listens any more
                    return
                try:
                    with tls.wrap_socket(peer, server_side=True) if tls else peer as said:
                        made.heard.append(said.recv(65_536).decode(errors="replace").split("\r")[0])
                        said.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
                except OSError:
                    peer.close()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield made
        finally:
            server.shutdown(socket.SHUT_RDWR)


# An MCP server over HTTP that says who it was told calls it.


class McpWeb:
    """An MCP server at a port."""

    def __init__(self, port: int) -> None:
        self.port = port


@contextmanager
def mcp_web() -> Generator[McpWeb]:
    """Serve one tool, `who`, at `/mcp`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if "id" not in asked:
                self._send(202, b"")
                return
            said = _mcp_result(asked, self.headers.get("authorization", "nobody"))
            body = {"jsonrpc": "2.0", "id": asked["id"], "result": said}
            self._send(200, json.dumps(body).encode())

        def do_GET(self) -> None:
            self._send(405, b"")

        def do_DELETE(self) -> None:
            self._send(200, b"")

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield McpWeb(server.server_port)
        finally:
            server.shutdown()


def _mcp_result(asked: dict[str, Any], caller: str) -> dict[str, Any]:
    match asked["method"]:
        case "initialize":
            version = asked["params"]["protocolVersion"]
            who = {"name": "notes", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": who}
        case "tools/list":
            tool = {"name": "who", "description": "who", "inputSchema": {"type": "object"}}
            return {"tools": [tool]}
        case _:
            return {"content": [{"type": "text", "text": f"called by {caller}"}]}


# Scenes that many rows tell.


def asks(*groups: list[str], **plan: object) -> Scene:
    """Ask the groups one after the other, each all at once; tell how each ask ended."""

    def scene(house: House) -> str:
        results = house.asks(*groups, **plan)["results"]
        return f"{' '.join(sorted(results))}; {len(house.requests)} sent"

    return scene
