"""A worker of `campaigns.rollout_kills`, and the shop that its agents order from.

Each life is forked from a process that has loaded all of this, so that it begins within
milliseconds.
"""

import asyncio
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vegakit.conversation import ModelRequest, Text, ToolMessage, UserMessage
from vegakit.host import Agent
from vegakit.providers import ScriptedCall, ScriptedModel, ScriptedReply
from vegakit.sdk import Runtime
from vegakit.store import PostgresJournal, PostgresStore
from vegakit.tools import FunctionTool, current_effect
from vegakit.vesper import RolledOut, RolloutRule, rollout

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["NAME", "WIDTH", "Fault", "Seat", "Shop", "live", "opened", "prompt"]

Fault: TypeAlias = Callable[[], None]
"""Breaks something in the worker it is called in."""

NAME = "buy"
WIDTH = 3
CALL_MS = 5


# The far end.


class Shop:
    """Takes orders. What is asked for again under the same key was done, and is not done again."""

    def __init__(self) -> None:
        self.orders: dict[str, str] = {}
        self.requests = 0
        self._lock = threading.Lock()

    def take(self, key: str, item: str) -> None:
        with self._lock:
            self.requests += 1
            self.orders.setdefault(key, item)

    def counts(self) -> Counter[str]:
        return Counter(self.orders.values())

    @contextmanager
    def open(self) -> Generator[int]:
        """Serves until the end of the block, at the port that it yields."""
        shop = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                shop.take(body["key"], body["item"])
                # A worker may be killed when it is done and before it hears so.
                time.sleep(CALL_MS / 1000)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Clients are killed: that they are gone is no error."""

        server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            server.server_close()


# A worker.


class Seat(NamedTuple):
    """One worker's place, which its lives take after each other."""

    dsn: str
    schema: str
    number: int
    shop: int
    items: tuple[str, ...]
    is_recorded: bool
    fault: Fault | None = None


def prompt(item: str) -> str:
    return f"Buy {item}."


def buyer(name: str, shop: int) -> Agent[str]:
    def order(item: str) -> str:
        """Order an item."""
        server = HTTPConnection("127.0.0.1", shop, timeout=60)
        body = json.dumps({"key": current_effect.get(), "item": item})
        server.request("POST", "/orders", body)
        server.getresponse().read()
        server.close()
        return f"ordered {item}"

    def answer(request: ModelRequest) -> ScriptedReply:
        asked = [each for each in request.messages if isinstance(each, UserMessage)][-1]
        said = "".join(part.text for part in asked.parts if isinstance(part, Text))
        item = said.removeprefix("Buy ").removesuffix(".")
        if isinstance(request.messages[-1], ToolMessage):
            return ScriptedReply(f"bought {item}", latency_ms=CALL_MS)
        return ScriptedReply(calls=(ScriptedCall("order", {"item": item}),), latency_ms=CALL_MS)

    # What a kill cuts off is asked again under the same key, which the shop knows.
    tool = FunctionTool(order, idempotent=True)
    return Agent(name, model=ScriptedModel(answer, name=name), tools=[tool])


def opened(rt: Runtime, shop: int = 0) -> RolledOut[..., str]:
    rule = RolloutRule(calibration=0, sample=1.0)
    old, new = buyer("old", shop), buyer("new", shop)
    return rollout(rt, NAME, reference=old, candidate=new, rule=rule)


def live(seat: Seat, says: "Connection") -> None:
    logging.disable(logging.WARNING)  # of moves, which are what this is about
    if seat.fault is not None:
        seat.fault()
    asyncio.run(_live(seat, says))


async def _live(seat: Seat, says: "Connection") -> None:
    journal = PostgresJournal(seat.dsn, schema=f"{seat.schema}_{seat.number}")
    async with (
        Runtime(
            journal=journal if seat.is_recorded else None,
            store=PostgresStore(seat.dsn, schema=seat.schema),
            observable=False,
        ) as rt,
        opened(rt, seat.shop) as buy,
    ):
        says.send(("up", ()))
        for begin in range(0, len(seat.items), WIDTH):
            group = seat.items[begin : begin + WIDTH]
            says.send(("begun", group))
            said = await asyncio.gather(*(buy(prompt(item)) for item in group))
            says.send(("answered", tuple(zip(group, said, strict=True))))
            await buy.settle()
            says.send(("counted", group))
        # Before the run is ended: a life that is killed after it would begin another run.
        says.send(("done", ()))
