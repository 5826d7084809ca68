"""The cache of replies, over real sockets: what is sent, what it costs, what is given again."""

import asyncio
import logging
import os
import sqlite3
import stat
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from vegakit.config import load
from vegakit.conversation import Finish, Usage
from vegakit.errors import AgentFailed, BudgetExceeded, OutputTruncated
from vegakit.events import CallKind, CallTraced
from vegakit.host import Agent, LimiterRules, TextChunk
from vegakit.money import Dollars, Money, dollars
from vegakit.policy import BreakerRule, RateRule, RetryBudgetRule, RetryRule, ScopeRule
from vegakit.prices import PriceRow, PriceTier
from vegakit.providers import ProviderAccess, build_model
from vegakit.sdk import Runtime
from vegakit.store import ReplyCache
from vegakit.testing import Failure, FakeClock, Provider, ProviderReply, ProviderToolCall

NAME = "anthropic:a"
PRICE = PriceRow(NAME, (PriceTier(dollars("$1"), dollars("$5"), dollars("$1"), dollars("$1")),))
YES = ProviderReply("yes", usage=Usage(100, 10))
COST_NANOS = int(dollars("$0.00015"))
COST = Dollars.of_nanos(COST_NANOS)
LOOSE = LimiterRules(RateRule(), BreakerRule(threshold=1_000_000), RetryBudgetRule(100, 1_000))
AGENT = Agent("a", NAME, max_tokens=100, retry=RetryRule(1))

Work = Callable[[Runtime, Provider], Awaitable[Any]]


class Records:
    """A sink that keeps what it is told of model calls."""

    def __init__(self) -> None:
        self.calls: list[CallTraced] = []

    def record(self, call: CallTraced) -> None:
        if call.kind is CallKind.MODEL:
            self.calls.append(call)

    async def aclose(self) -> None:
        pass


async def on_wire(script: Any, *programs: Work, **settings: Any) -> int:
    """Run programs one after another, each in a runtime of its own, and return how many requests
    the provider had."""
    async with Provider(script) as provider:
        access = ProviderAccess(lambda: "k", provider.url, price=PRICE)
        model = build_model(NAME, access)
        options: dict[str, Any] = {"budget": "$1", "limits": lambda _: LOOSE, **settings}
        for program in programs:
            async with Runtime(models=lambda _: model, **options) as rt:
                await program(rt, provider)
        return len(provider.requests)


def asks(*prompts: str, agent: Agent[Any] = AGENT) -> Work:
    async def program(rt: Runtime, _: Provider) -> None:
        for prompt in prompts:
            await rt.ask(agent, prompt)

    return program


async def test_the_same_question_is_sent_once(tmp_path: Path) -> None:
    """With a cache five asks are one request; the others cost nothing and say so."""
    sink = Records()

    async def program(rt: Runtime, _: Provider) -> None:
        replies = [await rt.ask(AGENT, "?") for _ in range(5)]
        assert [reply.text for reply in replies] == ["yes"] * 5
        assert [reply.cost for reply in replies] == [COST, *[Dollars(0)] * 4]
        assert [reply.usage for reply in replies] == [Usage(100, 10), *[Usage()] * 4]
        assert await rt.spent() == COST

    assert await on_wire(YES, program, cache=tmp_path / "replies.db", trace=sink) == 1
    assert [call.cached for call in sink.calls] == [False, *[True] * 4]
    assert [call.reserved > 0 for call in sink.calls] == [True, *[False] * 4]
    assert [call.input_tokens for call in sink.calls] == [100, 0, 0, 0, 0]


async def test_nothing_is_cached_unless_asked_for() -> None:
    """Without a cache five asks are five requests."""
    assert await on_wire(YES, asks(*["?"] * 5)) == 5


async def test_another_process_finds_it(tmp_path: Path) -> None:
    """The file outlives its runtime, and only its owner may read it."""
    path = tmp_path / "replies.db"
    assert await on_wire(YES, asks("?"), asks("?"), cache=path) == 1
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


class Verdict(BaseModel):
    good: bool


def look_up(word: str) -> str:
    return word


OTHERS = {
    "prompt": (AGENT, "??"),
    "instructions": (Agent("a", NAME, max_tokens=100, instructions="Be kind."), "?"),
    "max_tokens": (Agent("a", NAME, max_tokens=101), "?"),
    "temperature": (Agent("a", NAME, max_tokens=100, temperature=0.5), "?"),
    "tools": (Agent("a", NAME, max_tokens=100, tools=[look_up]), "?"),
    "output": (Agent("a", NAME, max_tokens=100, output_type=Verdict), "?"),
}


@pytest.mark.parametrize("part", [*OTHERS])
async def test_another_request_is_another_entry(tmp_path: Path, part: str) -> None:
    """Whatever differs in what a model is told."""
    other, prompt = OTHERS[part]
    programs = asks("?"), asks(prompt, agent=other)
    assert await on_wire('{"good": true}', *programs, cache=tmp_path / "replies.db") == 2


async def test_how_long_it_may_take_is_no_part_of_the_question(tmp_path: Path) -> None:
    """A timeout changes no answer."""

    async def program(rt: Runtime, _: Provider) -> None:
        await rt.ask(AGENT, "?", timeout="90s")
        await rt.ask(AGENT, "?", timeout="80s")

    assert await on_wire(YES, program, cache=tmp_path / "replies.db") == 1


async def test_a_stream_is_given_in_one_piece(tmp_path: Path) -> None:
    """Whether the first time was a stream or not."""

    async def program(rt: Runtime, _: Provider) -> None:
        first = [event async for event in rt.stream(AGENT, "story")]
        again = [event async for event in rt.stream(AGENT, "story")]
        assert sum(isinstance(event, TextChunk) for event in first) > 1
        assert [event.text for event in again if isinstance(event, TextChunk)] == ["once upon"]
        assert (await rt.ask(AGENT, "story")).text == "once upon"

    assert await on_wire("once upon", program, cache=tmp_path / "replies.db") == 1


async def test_a_turn_with_tools_is_given_again_whole(tmp_path: Path) -> None:
    """The model's part of it: the tools are called each time."""
    called: list[str] = []

    def look(city: str) -> str:
        called.append(city)
        return f"sunny in {city}"

    calls = ProviderReply(calls=(ProviderToolCall("look", {"city": "Rome"}),))
    script, agent = [calls, "warm"], Agent("a", NAME, max_tokens=100, tools=[look])
    programs = asks("weather?", agent=agent), asks("weather?", agent=agent)
    assert await on_wire(script, *programs, cache=tmp_path / "replies.db") == 2
    assert called == ["Rome", "Rome"]


async def test_failures_and_truncated_answers_are_not_kept(tmp_path: Path) -> None:
    """Who asks again is answered by the model."""

    async def program(rt: Runtime, _: Provider) -> None:
        with pytest.raises(AgentFailed):
            await rt.ask(AGENT, "?")
        with pytest.raises(OutputTruncated):
            await rt.ask(AGENT, "?")
        assert (await rt.ask(AGENT, "?")).text == "yes"
        assert (await rt.ask(AGENT, "?")).cost == 0

    script = [Failure(500), ProviderReply("ye", finish=Finish.LENGTH), YES]
    assert await on_wire(script, program, cache=tmp_path / "replies.db") == 3


async def test_two_at_once_are_both_sent(tmp_path: Path) -> None:
    """Neither waits for the other: the cache knows answers, not calls in flight."""

    async def program(rt: Runtime, _: Provider) -> None:
        await rt.batch(*(rt.ask(AGENT, "?") for _ in range(3)))
        assert (await rt.ask(AGENT, "?")).cost == 0

    assert await on_wire(YES, program, cache=tmp_path / "replies.db") == 3


async def test_an_answer_grows_old(tmp_path: Path) -> None:
    """It is given again until its time is over, and then bought and kept anew."""
    clock, path = FakeClock(), tmp_path / "replies.db"
    seen: list[int] = []

    async def program(rt: Runtime, provider: Provider) -> None:
        for step_ms in (0, 999, 1, 999):
            clock.advance(step_ms)
            await rt.ask(AGENT, "?")
            seen.append(len(provider.requests))

    await on_wire(YES, program, cache=ReplyCache(path, keep_ms=1_000), clock=clock)
    assert seen == [1, 1, 2, 2]
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM cached_replies").fetchone() == (1,)


async def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    """The newest two are kept."""
    two = ReplyCache(tmp_path / "replies.db", entries=2)
    assert await on_wire(YES, asks("a", "b", "c", "c", "b", "a"), cache=two) == 4


async def test_a_journaled_run_goes_on_without_the_cache(tmp_path: Path) -> None:
    """An answer from the cache is recorded like any other, with nothing charged for it."""
    journal, path = tmp_path / "run.db", tmp_path / "replies.db"

    class CutOffError(Exception):
        pass

    async def cut_off(rt: Runtime, _: Provider) -> None:
        assert (await rt.ask(AGENT, "?")).cost == 0
        raise CutOffError

    async def resumed(rt: Runtime, _: Provider) -> None:
        reply = await rt.ask(AGENT, "?")
        assert (reply.text, reply.cost, await rt.spent()) == ("yes", 0, 0)

    assert await on_wire(YES, asks("?"), cache=path) == 1
    with pytest.raises(CutOffError):
        await on_wire(YES, cut_off, cache=path, journal=journal)
    assert await on_wire(YES, resumed, journal=journal) == 0


SPOILT: dict[str, Callable[[Path], object]] = {
    "a row that somebody changed": lambda path: _sql(
        path, "UPDATE cached_replies SET reply = replace(reply, 'yes', 'no!')"
    ),
    "a row of another format": lambda path: _sql(
        path, "UPDATE format_versions SET format_version = 9"
    ),
    "no database at all": lambda path: path.write_bytes(b"not a database, but long enough" * 9),
}


def _sql(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute(statement)
        file.commit()


@pytest.mark.parametrize("fault", [*SPOILT])
async def test_a_spoilt_cache_costs_nobody_an_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    """The request is sent, nothing that was changed is believed, and a warning says why, once."""
    path = tmp_path / "replies.db"

    async def ask_twice(rt: Runtime, _: Provider) -> None:
        replies = [await rt.ask(AGENT, "?") for _ in range(2)]
        assert [reply.text for reply in replies] == ["yes", "yes"]

    assert await on_wire(YES, asks("?"), cache=path) == 1
    SPOILT[fault](path)
    assert await on_wire(YES, ask_twice, cache=path) == 2
    said = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 1
    assert "replies are cached no longer" in said[0].getMessage()


async def test_the_settings_name_it(tmp_path: Path) -> None:
    """A file beside the one that names it, how long and how many; without a file there is none."""
    (tmp_path / "vega.toml").write_text(
        '[models]\nfast = "anthropic:a"\n'
        '[prices."anthropic:a"]\ninput = "$1"\noutput = "$5"\n'
        '[cache]\npath = "kept/replies.db"\nkeep = "1h"\nentries = 1\n'
    )
    home = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "home")}
    home["VEGA_TRUSTED_FOLDERS"] = str(tmp_path)

    async def asked(prompts: str, **flags: object) -> int:
        async with Provider(YES) as provider:
            given = {"providers.anthropic": {"base_url": provider.url, "key": lambda: "k"}}
            settings = load(given | flags, environment=home, directory=tmp_path)
            options: dict[str, Any] = {"journal": None, "ledger": None, "observable": False}
            async with Runtime.from_config(settings, trace=Records(), **options) as rt:
                for prompt in prompts:
                    await rt.ask(Agent("a", "fast", max_tokens=100), prompt)
            return len(provider.requests)

    assert await asked("aabab") == 4
    assert (tmp_path / "kept" / "replies.db").is_file()
    (tmp_path / "vega.toml").unlink()
    known = {'prices."anthropic:a"': {"input": "$1", "output": "$5"}, "models.fast": NAME}
    assert await asked("aa", **known) == 2


@cache
def worst_cost() -> int:
    """Return what is reserved for a question of one letter."""
    sink = Records()
    asyncio.run(on_wire(YES, asks("a"), trace=sink))
    return int(sink.calls[0].reserved)


def room_for(calls: int) -> ScopeRule:
    """Return a budget in which the last of so many calls still fits, and no further one."""
    return ScopeRule(Money(worst_cost() + (calls - 1) * COST_NANOS))


def test_a_cap_holds_as_it_does_without_a_cache(tmp_path: Path) -> None:
    """With room for one call another question is refused alike; the same one is free."""
    refused: list[str] = []

    async def program(rt: Runtime, _: Provider) -> None:
        await rt.ask(AGENT, "a")
        with pytest.raises(BudgetExceeded) as refusal:
            await rt.ask(AGENT, "b")
        refused.append(str(refusal.value))
        assert await rt.spent() == COST

    async def free(rt: Runtime, _: Provider) -> None:
        assert (await rt.ask(AGENT, "a")).cost == 0
        assert await rt.spent() == 0

    budget, path = room_for(1), tmp_path / "replies.db"
    assert asyncio.run(on_wire(YES, program, budget=budget)) == 1
    assert asyncio.run(on_wire(YES, program, free, budget=budget, cache=path)) == 1
    assert refused[0] == refused[1]


@given(st.lists(st.sampled_from("abcd"), max_size=8), st.integers(1, 4))
def test_each_question_is_sent_once_at_most(prompts: list[str], calls: int) -> None:
    """Whatever is asked in whatever order with however little money: what is sent is what is new
    and fits the budget, and what is spent is that."""
    answered: list[str] = []

    async def program(rt: Runtime, provider: Provider) -> None:
        for prompt in prompts:
            with suppress(BudgetExceeded):
                await rt.ask(AGENT, prompt)
                answered.append(prompt)
        assert await rt.spent() == COST * len(provider.requests)

    bought = [*dict.fromkeys(prompts)][:calls]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replies.db"
        sent = asyncio.run(on_wire(YES, program, budget=room_for(calls), cache=path))
    assert sent == len(bought)
    assert answered == [prompt for prompt in prompts if prompt in bought]
