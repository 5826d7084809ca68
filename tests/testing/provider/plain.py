"""HTTP without a client library: what is sent and what comes back, byte by byte."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.patience import PATIENCE_S
from vegakit.testing import Provider, Script

Conversation = Callable[["Line", Provider], Awaitable[None]]


class Line:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self) -> tuple[int, dict[str, str], Any]:
        """Status, headers, and the JSON of a whole body."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")[:-2]
        headers = dict(line.split(": ") for line in lines)
        body = await self.reader.readexactly(int(headers["content-length"]))
        return int(first.split(" ")[1]), headers, json.loads(body)


def post(path: str, body: object, *headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = "\r\n".join((f"POST {path} HTTP/1.1", *headers, f"Content-Length: {len(content)}"))
    return f"{lines}\r\n\r\n".encode() + content


def chat(text: str, **fields: Any) -> bytes:
    messages = [{"role": "user", "content": text}]
    return post("/v1/chat/completions", {"model": "m", "messages": messages, **fields})


def said(answer: tuple[int, dict[str, str], Any]) -> str:
    return answer[2]["choices"][0]["message"]["content"]


def converse(script: Script | None, conversation: Conversation, **options: Any) -> Provider:
    async def run() -> Provider:
        async with Provider(script, **options) as provider:
            port = int(provider.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                await asyncio.wait_for(conversation(Line(reader, writer), provider), 2 * PATIENCE_S)
            finally:
                writer.close()
        return provider

    return asyncio.run(run())


def answers(script: Script | None, *requests: bytes) -> list[tuple[int, dict[str, str], Any]]:
    """What the requests get, one after the other on one connection."""
    got: list[tuple[int, dict[str, str], Any]] = []

    async def conversation(line: Line, _: Provider) -> None:
        for request in requests:
            line.writer.write(request)
            got.append(await line.answer())

    converse(script, conversation)
    return got
