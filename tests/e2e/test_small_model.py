"""Runtime, gate and the official SDK against a real small model in another process.

What it says is its own affair: these are facts of the way there and back, of money and of leaving.
"""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any, Literal
from urllib.request import urlopen

import pytest
from pydantic import BaseModel

from tests.e2e.plain_requests import BRIEF
from vegakit.conversation import ToolMessage, Usage
from vegakit.errors import BudgetExceeded, OutputTruncated
from vegakit.host import Agent, TextChunk, ToolCalled, ToolReturned, TurnEnded
from vegakit.money import Money
from vegakit.prices import PriceRow, PriceTier
from vegakit.providers import ProviderAccess, build_model
from vegakit.sdk import Runtime

MODEL = "openai-chat:smollm2"
BRIEF_MODEL = f"{MODEL}{BRIEF}"
ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-e2e/bin/python"
PRICE = PriceRow(
    MODEL,
    (
        PriceTier(
            input=Money(3_000_000),
            output=Money(15_000_000),
            cache_read=Money(1_000_000),
            cache_write=Money(3_000_000),
        ),
    ),
)
"""Whole nano-dollars a token, so that a bill is exact: 3 in, 1 from the cache, 15 out."""

City = Literal["Rome", "Oslo"]


class Trip(BaseModel):
    city: City
    by_train: bool


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    assert PYTHON.exists(), "the small model is not installed; type: bash .ci/setup_e2e"
    line = [PYTHON, "-m", "tests.e2e.small_model"]
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        address = server.stdout.readline().strip()
        assert address, "the small model did not start; its own words are on stderr"
        yield address
        server.terminate()


def answers(url: str) -> list[dict[str, Any]]:
    """How each answer so far ended, once none is being made."""
    with urlopen(f"{url}/answers", timeout=100) as listed:
        return json.load(listed)


def with_runtime(url: str, work: Callable[[Runtime], Awaitable[Any]], budget: str = "$1") -> Any:
    access = ProviderAccess(lambda: "any", base_url=f"{url}/v1", price=PRICE)
    build_model(MODEL, access)  # loads a library, maybe for longer than a lease

    async def opened() -> Any:
        async with Runtime(budget, models=lambda name: build_model(name, access)) as rt:
            return await work(rt)

    return asyncio.run(opened())


def an_agent(output: type[Any] = str, **options: Any) -> Agent[Any]:
    options = {"model": BRIEF_MODEL, "max_tokens": 200, "temperature": 0.0, **options}
    return Agent("small", output_type=output, **options)


def billed(usage: Usage) -> int:
    plain = usage.input_tokens - usage.cache_read_tokens
    return 3 * plain + usage.cache_read_tokens + 15 * usage.output_tokens


def test_an_answer_costs_what_its_tokens_cost(url: str) -> None:
    """To the nano-dollar, and nothing stays reserved."""

    async def work(rt: Runtime) -> None:
        reply = await rt.ask(an_agent(), "What is the capital of France?")
        assert reply.text.endswith(".")
        assert min(reply.usage.input_tokens, reply.usage.output_tokens) > 0
        assert reply.cost == await rt.spent() == billed(reply.usage)
        assert await rt.remaining() == 1_000_000_000 - reply.cost

    with_runtime(url, work)


def test_a_conversation_reads_the_cache_and_pays_less(url: str) -> None:
    """What the server need not read again is billed at the cache's price."""

    async def work(rt: Runtime) -> None:
        first = await rt.ask(an_agent(), "Name three rivers of Europe.")
        second = await rt.ask(an_agent(), "And of Asia?", history=first.messages)
        assert second.usage.cache_read_tokens > 0
        assert second.cost == billed(second.usage)
        assert await rt.spent() == first.cost + second.cost

    with_runtime(url, work)


def test_a_stream_is_the_answer_in_pieces(url: str) -> None:
    """The pieces are the text of the reply, and the bill is that of the reply."""

    async def work(rt: Runtime) -> None:
        events = [event async for event in rt.stream(an_agent(), "Tell a story of a fox.")]
        *pieces, ended = events
        assert isinstance(ended, TurnEnded)
        assert sum(isinstance(piece, TextChunk) for piece in pieces) > 1
        assert "".join(map(str, pieces)) == ended.reply.text
        assert ended.reply.cost == await rt.spent() == billed(ended.reply.usage)

    with_runtime(url, work)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_tool_that_the_model_calls_runs(url: str, stream: bool) -> None:
    """Its result goes back, and the model has the last word; both requests are paid for."""
    asked: list[City] = []

    def temperature(city: City) -> int:
        """The temperature of a city in degrees."""
        asked.append(city)
        return 21

    async def work(rt: Runtime) -> None:
        question = rt.ask(an_agent(tools=[temperature]), "How warm is it in Rome?")
        *events, ended = [event async for event in question.events(stream=stream)]
        assert isinstance(ended, TurnEnded)
        assert asked in (["Rome"], ["Oslo"])
        assert ended.reply.steps == 2
        assert ended.reply.text.strip()
        assert ended.reply.cost == await rt.spent() == billed(ended.reply.usage)
        called = [e for e in events if isinstance(e, ToolCalled | ToolReturned)]
        assert [type(event) for event in called] == [ToolCalled, ToolReturned]
        assert any(isinstance(message, ToolMessage) for message in ended.reply.messages.messages)

    with_runtime(url, work)


def test_an_answer_of_a_type_has_that_type(url: str) -> None:
    """The model is held to the schema, and what it wrote is checked."""

    async def work(rt: Runtime) -> None:
        reply = await rt.ask(an_agent(Trip), "Plan a trip to Oslo.")
        assert isinstance(reply.output, Trip)
        assert reply.cost == await rt.spent() == billed(reply.usage)

    with_runtime(url, work)


def test_an_answer_that_is_cut_off_is_paid_for(url: str) -> None:
    """The error says so, and the bill is that of the tokens that came."""

    async def work(rt: Runtime) -> None:
        with pytest.raises(OutputTruncated, match="max_tokens=8"):
            await rt.ask(an_agent(model=MODEL, max_tokens=8), "Tell a story of a fox.")
        assert 15 * 8 < await rt.spent() < 15 * 8 + 3 * 100

    with_runtime(url, work)


def test_what_the_budget_refuses_is_never_sent(url: str) -> None:
    """The server sees no request."""
    before = len(answers(url))

    async def work(rt: Runtime) -> None:
        with pytest.raises(BudgetExceeded, match="could cost"):
            await rt.ask(an_agent(max_tokens=4_000), "hello")
        assert await rt.spent() == 0

    with_runtime(url, work, budget="$0.00001")
    assert len(answers(url)) == before


def test_leaving_a_stream_frees_the_model(url: str) -> None:
    """It stops long before its end, the call is charged as reserved, the next one is answered."""

    async def work(rt: Runtime) -> None:
        stream = rt.stream(an_agent(model=MODEL, max_tokens=2_000), "Tell a long story of a bear.")
        await anext(stream)
        await stream.aclose()
        *_, last = await asyncio.to_thread(answers, url)
        assert last["left"]
        assert last["chunks"] < 1_000
        assert await rt.spent() > 15 * 2_000
        assert (await rt.ask(an_agent(), "Are you there?")).text

    with_runtime(url, work)
