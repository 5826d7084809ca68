"""What a rollout is about: whatever could change an answer makes another version of it, and so does
nothing else."""

import asyncio
import functools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.vesper.test_rollouts import within
from vegakit.contracts import RolloutRule
from vegakit.errors import InvalidRuleError, UserError
from vegakit.host import Agent
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.tools import tool
from vegakit.vesper import StoredRollouts, by_field, close, ignored, rollout
from vegakit.vesper.versions import identity_of

OLD = Agent("sorter", model="smart", max_tokens=10)
Function = Callable[..., Any]


def made(source: str, **known: object) -> Any:
    """Returns the `f` of a module of its own."""
    names: dict[str, Any] = {"__name__": "made", **known}
    exec(source, names)
    return names["f"]


def closing_over(value: object) -> Function:
    async def answer(_question: str) -> object:
        return value

    return answer


def by_default(value: object) -> Function:
    async def answer(_question: str, value: object = value) -> object:
        return value

    return answer


async def told(value: object, _question: str) -> object:
    return value


def decorated(function: Function) -> Function:
    @functools.wraps(function)
    async def answer(*given: object) -> object:
        return await function(*given)

    return answer


class Answering:
    def __init__(self, value: object) -> None:
        self.value = value

    async def answer(self, _question: str) -> object:
        return self.value


HELPED = "def g(): return {!r}\nasync def f(q): return g()"
TABLE = "K = {{'x': {!r}}}\nasync def f(q): return K['x']"
READING = "K = {!r}\nasync def f(q): return K"
CLASSY = "class G:\n    def g(self): return {!r}\nasync def f(q): return G().g()"

CHANGES: dict[str, Callable[[str], Any]] = {
    "its code": lambda word: made(f"async def f(q): return {word!r}"),
    "a function inside": lambda word: made(f"async def f(q): return (lambda: {word!r})()"),
    "a function that it calls": lambda word: made(HELPED.format(word)),
    "a constant that it reads": lambda word: made(READING.format(word)),
    "a table of constants": lambda word: made(TABLE.format(word)),
    "a class that it uses": lambda word: made(CLASSY.format(word)),
    "what it closes over": closing_over,
    "a table that it closes over": lambda word: closing_over({"x": [word]}),
    "a default": by_default,
    "an argument of a partial": lambda word: functools.partial(told, word),
    "the state of its object": lambda word: Answering(word).answer,
    "what a decorator holds": lambda word: decorated(closing_over(word)),
    "an agent that it asks": lambda word: closing_over(replace(OLD, instructions=word)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_function_is_what_it_does(change: str) -> None:
    one, same, other = (CHANGES[change](word) for word in ("ok", "ok", "no"))
    assert identity_of(one) == identity_of(same) != identity_of(other)


def test_the_place_of_a_function_is_nothing_that_it_does() -> None:
    one, other = made("async def f(q): return q"), made("# said\n\nasync def f(q): return q")
    assert identity_of(one) == identity_of(other)


def test_what_happened_so_far_is_nothing_that_it_does() -> None:
    function = made("seen = []\nasync def f(q): seen.append(q)")
    before = identity_of(function)
    function.__globals__["seen"].append(1)
    assert identity_of(function) == before


def test_what_refers_to_itself_is_read_once() -> None:
    ring: list[object] = []
    ring.append(ring)
    assert identity_of(closing_over(ring)) != identity_of(closing_over([[]]))


def test_a_long_table_is_data() -> None:
    assert identity_of(closing_over([*range(50_000)])) == identity_of(closing_over([0] * 50_000))


def test_every_process_reads_the_same() -> None:
    """Sets are in another order in each."""
    script = (
        "from tests.vesper.test_versions import *\n"
        "print(*(identity_of(CHANGES[each]('ok')) for each in CHANGES), "
        "identity_of(closing_over({'a', 'b', 'c'})))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def selling(word: str) -> Any:
    @tool(capabilities=[])
    def sell(item: str) -> str:
        """Sell it."""
        return made(f"def f(item): return {word!r}")(item)

    return sell


def versions(*changes: dict[str, Any], **options: Any) -> list[str]:
    async def version(rt: Runtime, change: dict[str, Any]) -> str:
        given: dict[str, Any] = {
            "reference": OLD,
            "candidate": replace(OLD, model="fast"),
            **change,
        }
        async with rollout(rt, "v", **given) as rolled:
            return rolled.version

    async def work(rt: Runtime) -> list[str]:
        return [await version(rt, change) for change in changes]

    return within(work, **{"models": lambda name: ScriptedModel("ok", name=name), **options})


@pytest.mark.parametrize(
    "change",
    [
        {"candidate": replace(OLD, model="other")},
        {"candidate": replace(OLD, model=["fast", "other"])},
        {"reference": replace(OLD, instructions="Sort.")},
        {"candidate": replace(OLD, model="fast", tools=[selling("a")])},
        {"compare": close(0.5)},
        {"compare": lambda _one, _two: True},
        {"compare": by_field({"a": ignored()})},
        {"compare": by_field({"a": lambda _one, _two: True})},
        {"rule": RolloutRule(margin=0.05)},
        {"rule": RolloutRule(alpha=0.01)},
    ],
)
def test_whatever_could_change_an_answer_or_a_verdict_is_another_rollout(
    change: dict[str, Any],
) -> None:
    before, after, again = versions({}, change, change)
    assert before != after == again


def test_a_tool_is_its_code_and_not_what_it_is_connected_to() -> None:
    def connected(port: int, more: str) -> Any:
        async def call(_item: str) -> str:
            """Call."""
            return f"{port}"

        async def other(_item: str) -> str:
            """Call."""
            return f"{port}?"

        call.__name__ = other.__name__ = "call"
        return {"candidate": replace(OLD, tools=[other if more else call])}

    one, same, other = versions(connected(1, ""), connected(2, ""), connected(1, "more"))
    assert one == same != other


def test_an_alias_is_what_it_stands_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pointed at another model it is another candidate, which nobody has compared."""
    monkeypatch.chdir(tmp_path)
    for model in ("one", "two"):
        (tmp_path / f"{model}.json").write_text('{"replies": ["ok"]}', encoding="utf-8")
    monkeypatch.setenv("VEGA_MODELS_SMART", "scripted:one.json")

    def opened(model: str) -> str:
        monkeypatch.setenv("VEGA_MODELS_FAST", f"scripted:{model}.json")

        async def work(rt: Runtime) -> str:
            async with rollout(
                rt, "v", reference=OLD, candidate=replace(OLD, model="fast")
            ) as rolled:
                return rolled.version

        return within(work)

    first, same, second = opened("one"), opened("one"), opened("two")
    assert first == same != second


# Names that people read.


def titles(reference: Agent[str], candidate: Agent[str]) -> tuple[str, str]:
    """What a store keeps of both paths, for people."""

    async def work() -> tuple[str, str]:
        async with (
            Runtime(observable=False, budget="$1") as rt,
            rollout(rt, "t", reference=reference, candidate=candidate) as rolled,
        ):
            await rolled.begin()
            [found] = await StoredRollouts([rt.store], rt.clock, "here").named("t")
            return found.record.subject.reference, found.record.subject.candidate

    return asyncio.run(work())


def sorter(instructions: str, max_tokens: int = 10) -> Agent[str]:
    model = ScriptedModel("yes", name="m")
    return Agent("sorter", model=model, instructions=instructions, max_tokens=max_tokens)


LONG = "You sort letters into kinds, carefully. "


@pytest.mark.parametrize(
    ("one", "two", "told"),
    [
        (sorter("Sort."), sorter("Sort it."), ('prompt "Sort."', 'prompt "Sort it."')),
        (sorter(""), sorter("Sort it."), ("prompt none", 'prompt "Sort it."')),
        (
            sorter(LONG + "Say which."),
            sorter(LONG + "Say only which one it is, please."),
            ('prompt "…which."', 'prompt "…only which one it is, please."'),
        ),
        (sorter("Sort."), sorter("Sort.", max_tokens=9), ("version ", "version ")),
    ],
)
def test_titles_that_are_alike_say_what_differs(one: Any, two: Any, told: tuple[str, str]) -> None:
    """The prompt, or where that is the same, the version."""
    first, second = titles(one, two)
    assert first != second
    for title, words in ((first, told[0]), (second, told[1])):
        assert title.startswith(f"sorter (m), {words}")


def test_titles_of_other_models_are_short() -> None:
    """They need no more."""
    other = Agent("sorter", model=ScriptedModel("yes", name="n"), instructions="Sort it.")
    assert titles(sorter("Sort."), other) == ("sorter (m)", "sorter (n)")


@pytest.mark.parametrize("name", ["", "a/b", "a\x1b[31m", "a\n", "a" * 101, 7])
def test_names_are_words(name: Any) -> None:
    """They are typed, printed and kept."""
    with pytest.raises(UserError, match="of at most 100 characters, like 'review'"):
        rollout(Runtime(observable=False), name, reference=sorter("a"), candidate=sorter("b"))
    rollout(Runtime(observable=False), "a" * 100, reference=sorter("a"), candidate=sorter("b"))


@pytest.mark.parametrize("calibration", [1.5, 2.0, True, "3", -1])
def test_calibration_is_a_count(calibration: Any) -> None:
    """Half a call cannot be made."""
    with pytest.raises(InvalidRuleError, match="0 calls or more, a whole number"):
        RolloutRule(calibration=calibration)


def test_calls_at_once_calibrate_no_more_than_the_rule_says() -> None:
    """Those in flight count; the others are compared with the candidate at once."""

    async def work() -> tuple[int, int]:
        rule = RolloutRule(calibration=5)
        one, two = sorter("Sort."), sorter("Sort it.")
        async with (
            Runtime(observable=False, budget="$1") as rt,
            rollout(rt, "c", reference=one, candidate=two, rule=rule) as rolled,
        ):
            await asyncio.gather(*(rolled(f"{n}?") for n in range(25)))
            await rolled.settle()
            evidence = rolled.status().evidence
            return evidence.noise.runs, evidence.production.runs

    assert asyncio.run(work()) == (5, 20)
