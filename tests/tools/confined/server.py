"""A server on this machine that answers as it is told and remembers what it was asked."""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeAlias

from vegakit.policy import Grant

Reply: TypeAlias = bytes | Callable[[str], bytes]


def reply(body: bytes = b"hello", status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Server:
    def __init__(self, answer: Reply, *, tls: ssl.SSLContext | None = None) -> None:
        self._answer = answer
        self._tls = tls
        self.heads: list[str] = []
        self.gone = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    def grant(self, *hosts: str, capabilities: Sequence[str] = ("net",)) -> Grant:
        """These names, and this server's own address."""
        named = [f"{host}:{self.port}" for host in (*hosts, "127.0.0.1")]
        return Grant(tuple(capabilities), hosts=tuple(named))

    def url(self, host: str = "127.0.0.1", path: str = "/") -> str:
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.heads.append(head)
            answer = self._answer if isinstance(self._answer, bytes) else self._answer(head)
            writer.write(answer)
            await writer.drain()
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.gone.set()
            writer.close()


class Names:
    """Leads each name to its addresses, a list of them for each time it is asked."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.answers = {name.replace("_", "."): list(each) for name, each in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self.answers[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]
