"""An agent with several models, over real sockets: who is asked, how often, and what it costs."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.durability.commands import Home
from vegakit.agent import AskModel, Turn
from vegakit.conversation import ModelRequest, Text, Usage
from vegakit.errors import AgentFailed, BudgetExceeded, ErrorClass, InvalidRuleError, UserError
from vegakit.events import CallKind, CallTraced
from vegakit.host import Agent, LimiterRules
from vegakit.lang import check_program, compile_program, manifest_of
from vegakit.money import Money, dollars
from vegakit.policy import Backoff, BreakerRule, RateRule, RetryBudgetRule, RetryRule
from vegakit.prices import PriceRow, PriceTier, worst_case
from vegakit.providers import ProviderAccess, build_model
from vegakit.sdk import Runtime
from vegakit.testing import (
    Break,
    DropConnection,
    Failure,
    Hang,
    Provider,
    ProviderAnswer,
    ProviderReply,
    ProviderRequest,
    ProviderToolCall,
)
from vegakit.testing.provider.script import chooser

A, B, C = "anthropic:a", "openai-chat:b", "openai:c"
PRICES = {A: ("$1", "$5"), B: ("$2", "$10"), C: ("$3", "$15")}
USAGE = Usage(100, 10)
COST = {A: dollars("$0.00015"), B: dollars("$0.0003"), C: dollars("$0.00045")}
"""Of an answer with that usage."""
YES = ProviderReply("yes", usage=USAGE)
QUICK = RetryRule(2, Backoff(1, 1.0, 1), (ErrorClass.OVERLOADED, ErrorClass.CONNECTION))
LOOSE = LimiterRules(RateRule(), BreakerRule(threshold=1_000_000), RetryBudgetRule(100, 1_000))
BOTH = Agent("a", [A, B], retry=QUICK, max_tokens=100)

Work = Callable[[Runtime, Provider], Awaitable[Any]]


class Records:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.calls: list[CallTraced] = []

    def record(self, call: CallTraced) -> None:
        self.calls.append(call)

    async def aclose(self) -> None:
        pass


def price(name: str) -> PriceRow:
    given, taken = map(dollars, PRICES[name])
    return PriceRow(name, (PriceTier(given, taken, given, given),))


def by_model(**scripts: Any) -> Callable[[ProviderRequest], ProviderAnswer]:
    choosers = {name: chooser(script) for name, script in scripts.items()}
    return lambda request: choosers[request.model](request)


def asked(provider: Provider) -> Mapping[str, int]:
    return Counter(request.model for request in provider.requests)


def run(script: Any, work: Work, rules: LimiterRules = LOOSE, **settings: Any) -> Any:
    async def opened() -> Any:
        async with Provider(script) as provider:

            def find(name: str) -> Any:
                base = provider.url if name == A else provider.url + "/v1"
                return build_model(name, ProviderAccess(lambda: "k", base, price=price(name)))

            given: dict[str, Any] = {"models": find, "limits": lambda _: rules, "budget": "$1"}
            async with Runtime(**given | settings) as rt:
                return await work(rt, provider)

    return asyncio.run(opened())


@pytest.mark.parametrize(
    ("failure", "requests"),
    [(Failure(529), 2), (Failure(503), 1), (Failure(429), 1), (Failure(500), 1)],
    ids=str,
)
def test_the_next_model_answers_when_the_first_is_not_available(
    failure: Failure, requests: int
) -> None:
    """After the retries of the first, at the price of the second; the trace names who answered."""
    sink = Records()

    async def work(rt: Runtime, provider: Provider) -> None:
        reply = await rt.ask(BOTH, "hello")
        assert (reply.text, reply.cost) == ("yes", COST[B])
        assert await rt.spent() == COST[B]
        assert asked(provider) == {"a": requests, "b": 1}

    run(by_model(a=failure, b=YES), work, trace=sink)
    calls = [record for record in sink.calls if record.kind is CallKind.MODEL]
    assert [(call.model, str(call.status)) for call in calls] == [(A, "failed"), (B, "ok")]


@pytest.mark.parametrize("failure", [Failure(400), Failure(401), Failure("quota")], ids=str)
def test_what_another_model_would_not_help_is_not_asked_again(failure: Failure) -> None:
    """A wrong request, a wrong key, an empty account."""

    async def work(rt: Runtime, provider: Provider) -> None:
        with pytest.raises(AgentFailed):
            await rt.ask(BOTH, "hello")
        assert asked(provider) == {"a": 1}
        assert await rt.spent() == 0

    run(by_model(a=failure, b=YES), work)


def test_attempts_that_may_be_billed_stay_charged() -> None:
    """Two dropped connections at the worst case of the first, then the bill of the second."""

    async def work(rt: Runtime, provider: Provider) -> None:
        reply = await rt.ask(BOTH, "hello")
        [request, *_] = (one for one in provider.requests if one.model == "a")
        assert request.max_tokens == 100
        model = rt.model_registry.model_of(BOTH)
        body = rt.program.registry.code["a"]
        tokens = model.bound_input(_request(body))
        assert reply.cost == 2 * worst_case(price(A), tokens, 100) + COST[B]
        assert await rt.spent() == reply.cost
        assert asked(provider) == {"a": 2, "b": 1}

    run(by_model(a=DropConnection(), b=YES), work)


def _request(body: Any) -> ModelRequest:
    action = Turn(body.rule).start([Text("hello")], count=lambda _: 0)
    assert isinstance(action, AskModel)
    return action.request


def test_a_budget_that_holds_only_the_first_refuses_the_second() -> None:
    """With the price of the second and the reason why it was to be asked."""

    async def work(rt: Runtime, provider: Provider) -> None:
        agent = Agent("a", [A, B], retry=QUICK, max_tokens=100, budget="$0.001")
        with pytest.raises(BudgetExceeded) as refusal:
            await rt.ask(agent, "hello")
        assert "the next call could cost $0.001" in str(refusal.value)
        assert f"{A} was asked before and gave no answer" in str(refusal.value)
        assert asked(provider) == {"a": 2}
        assert await rt.spent() == 0

    run(by_model(a=Failure(529), b=YES), work)


def test_a_shared_budget_refuses_the_second_too() -> None:
    """The runtime's, which the gate asks."""

    async def work(rt: Runtime, provider: Provider) -> None:
        with pytest.raises(BudgetExceeded, match=f"(?s){B} could cost.*{A} was asked before"):
            await rt.ask(BOTH, "hello")
        assert asked(provider) == {"a": 2}
        assert await rt.spent() == 0

    run(by_model(a=Failure(529), b=YES), work, budget="$0.001")


def test_an_open_breaker_of_the_first_has_the_second_asked_at_once() -> None:
    """Not one more request to the first."""
    rules = LOOSE._replace(breaker=BreakerRule(threshold=2, reset_after_ms=10**9))

    async def work(rt: Runtime, provider: Provider) -> None:
        for count in (1, 2, 3):
            assert (await rt.ask(BOTH, f"hello {count}")).text == "yes"
            assert asked(provider) == {"a": 2, "b": count}
        assert await rt.spent() == 3 * COST[B]

    run(by_model(a=Failure(529), b=YES), work, rules)


def test_the_turn_stays_with_the_model_that_answered() -> None:
    """Its tools' results go to it, and the next question begins with the first again."""

    def look() -> str:
        return "seen"

    calls = ProviderReply(calls=(ProviderToolCall("look"),), usage=USAGE)

    async def work(rt: Runtime, provider: Provider) -> None:
        agent = Agent("a", [A, B], retry=QUICK, max_tokens=100, tools=[look])
        assert (await rt.ask(agent, "hello")).cost == 2 * COST[B]
        assert [request.model for request in provider.requests] == ["a", "a", "b", "b"]
        assert (await rt.ask(agent, "hello")).cost == COST[A]

    run(by_model(a=[Failure(529), Failure(529), YES], b=[calls, YES]), work)


def test_all_models_are_asked_in_order_and_all_reasons_are_told() -> None:
    """Each as often as it may be."""

    async def work(rt: Runtime, provider: Provider) -> None:
        with pytest.raises(AgentFailed) as failed:
            await rt.ask(Agent("a", [A, B, C], retry=QUICK, max_tokens=100), "hello")
        assert f"{A} was asked before" in str(failed.value)
        assert f"{B} was asked before" in str(failed.value)
        assert [request.model for request in provider.requests] == [*"aabcc"]
        assert await rt.spent() == 0

    run(by_model(a=Failure(529), b=Failure(503), c=Failure(529)), work)


def test_a_stream_that_has_spoken_is_not_begun_by_another_model() -> None:
    """What was heard cannot be taken back."""
    broken = ProviderReply("one two three four", breaks=Break(2, DropConnection()))

    async def work(rt: Runtime, provider: Provider) -> None:
        with pytest.raises(AgentFailed):
            async for _ in rt.stream(BOTH, "hello"):
                pass
        assert asked(provider) == {"a": 1}

    run(by_model(a=broken, b=YES), work)


def test_a_model_that_is_listed_twice_or_not_at_all_is_refused() -> None:
    async def work(rt: Runtime, provider: Provider) -> None:
        with pytest.raises(InvalidRuleError, match="empty list"):
            await rt.ask(Agent("a", []), "hello")
        twins = [
            rt.model_registry.model_of(Agent("a", A)),
            build_model(A, ProviderAccess(lambda: "k")),
        ]
        with pytest.raises(UserError, match="several models"):
            await rt.ask(Agent("a", twins), "hello")

    run("yes", work)


# A list in vega.toml and in a program, and `kill -9` between the two models.


SETTINGS = """
[models]
fast = ["openai:a", "openai:b"]
[providers.openai]
base_url = "{url}/v1"
[prices."openai:a"]
input = "$1"
output = "$1"
[prices."openai:b"]
input = "$2"
output = "$2"
[limits.default.retry]
max_attempts = 2
backoff = "exponential(1ms, 1.0, 1ms)"
"""
PROGRAM = """agent A { model fast  max_tokens 100 }
fn main() -> str {
    let one = A <- "first";
    return A <- "second {one}";
}
"""
LISTED = PROGRAM.replace("model fast", 'model ["openai:a", "openai:b"]')


@pytest.mark.parametrize("source", [PROGRAM, LISTED], ids=["settings", "program"])
def test_a_run_that_was_killed_in_a_fallback_buys_nothing_twice(
    tmp_path: Path, source: str
) -> None:
    """The failures of the first are recorded: the resumed run goes on with the second, whose cut
    call alone is sent again; it is charged as lost."""
    script = by_model(a=Failure(529), b=[YES, Hang(), YES])
    with Provider(script).in_thread() as provider:
        home = Home(tmp_path, provider, SETTINGS)
        home.killed(6, "-m", "vegakit", "run", home.write(source))
        assert [request.model for request in provider.requests] == [*"aabaab"]
        gone_on = home.vega("resume")
        assert (gone_on.status, gone_on.out) == (0, "yes\n"), gone_on
        assert [request.model for request in provider.requests] == [*"aabaabb"]
        [ran] = home.runs()
    assert ran["lost_usd"] > 0
    assert ran["ended_ms"] is not None


@pytest.mark.parametrize("source", [PROGRAM, LISTED], ids=["settings", "program"])
def test_a_quote_counts_every_call_at_the_most_expensive_model(tmp_path: Path, source: str) -> None:
    """Each send once and the paid repeats, by whichever of its models they are made."""
    source = source.replace("second {one}", "second")
    with Provider("yes").in_thread() as provider:
        home = Home(tmp_path, provider, SETTINGS)
        both = _quoted(home, source)
        first = _quoted(home, source.replace("fast", '"openai:a"').replace(', "openai:b"', ""))
        second = _quoted(home, source.replace("fast", '"openai:b"').replace('"openai:a", ', ""))
    assert both["calls"] == first["calls"] == second["calls"] == 2
    assert both["paid_repeats"] == 2
    assert both["total_usd"] == pytest.approx(second["total_usd"])
    assert second["total_usd"] > first["total_usd"]


def _quoted(home: Home, source: str) -> dict[str, Any]:
    told = home.vega("cost", "--json", home.write(source))
    assert told.status == 0, told
    return json.loads(told.out)


IN_PYTHON = """from vegakit import Agent, program

A = Agent("A", model=["fast", "openai:b"])


@program
def main() -> str:
    return A.ask("x")
"""
IN_VEGA = 'agent A { model [fast, "openai:b"] }\nfn main() -> str { return A <- "x"; }\n'


@pytest.mark.parametrize(("name", "source"), [("a.py", IN_PYTHON), ("a.vega", IN_VEGA)])
def test_both_languages_take_a_list(name: str, source: str) -> None:
    """In order, for the compiler and for who reads the manifest."""
    checked, found = check_program(source, name, lambda _: None)
    assert checked is not None, found
    [agent] = compile_program(checked).agents
    assert agent.models == ("fast", "openai:b")
    assert manifest_of(checked).agents[0].fallbacks == ("openai:b",)


@pytest.mark.parametrize("listed", ["[]", "[fast, fast]", "[[fast]]", "[1]"])
def test_a_list_that_is_wrong_is_told_by_the_checker(listed: str) -> None:
    source = f'agent A {{ model {listed} }}\nfn main() -> str {{ return A <- "x"; }}\n'
    checked, found = check_program(source, "a.vega", lambda _: None)
    assert checked is None
    assert [one.code for one in found] == ["wrong-setting"]


def test_money_of_an_answer() -> None:
    """The figures above are those of the price rows."""
    for name, cost in COST.items():
        given, taken = map(dollars, PRICES[name])
        assert cost == Money((100 * given + 10 * taken) // 1_000_000)
