"""Versions: evidence of one thing does not count for another."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.vesper.test_rollouts import double
from vegakit.host import Agent
from vegakit.providers.scripted import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.tools import tool
from vegakit.vesper import by_field, close, rollout


def written(source: str) -> Any:
    """The last function of a module of this text."""
    names: dict[str, Any] = {"__name__": "theirs"}
    exec(compile(source, "<theirs>", "exec"), names)
    return [each for each in names.values() if callable(each)][-1]


def version(candidate: Any, compare: Any = None, **options: Any) -> str:
    return rollout(
        Runtime(**options), "d", reference=double, candidate=candidate, compare=compare
    ).version


class Sorter:
    def __init__(self, prompt: str) -> None:
        self.prompt, self.asked = prompt, list[str]()

    async def sort(self, text: str) -> str:
        return self.prompt + text


def closed_over(prompt: str) -> Any:
    async def sort(text: str) -> str:
        return prompt + text

    return sort


async def sort_by(prompt: str, text: str) -> str:
    return prompt + text


def with_tool(word: str, port: int = 0) -> Agent[str]:
    """A tool of this code, which finds the world at a port."""
    source = (
        f"def made(port):\n    def look(place: str) -> str:\n        return port, place.{word}()\n"
    )
    look = tool(capabilities=[])(written(f"{source}    return look")(port))
    return Agent("a", model=ScriptedModel("yes", name="m"), tools=[look])


def same_as(value: object) -> Callable[[Any, Any], bool]:
    return lambda one, _two: one == value


HELPER = "def clean(x): return x.{}()\nasync def f(x): return clean(x)"
CONSTANT = "PROMPT = ('a', {})\nasync def f(x): return PROMPT, x"
DEFAULT = "async def f(x, prompt={!r}): return prompt, x"


@pytest.mark.parametrize(
    "made",
    [
        lambda word: written(HELPER.format(word)),
        lambda word: written(CONSTANT.format(repr(word))),
        lambda word: written(DEFAULT.format(word)),
        lambda word: written(DEFAULT.replace("x, prompt", "x, *, prompt").format(word)),
        closed_over,
        lambda word: functools.partial(sort_by, word),
        lambda word: Sorter(word).sort,
        with_tool,
        lambda word: Agent("a", model=ScriptedModel("yes", name=word)),
    ],
    ids=["helper", "constant", "default", "named", "closure", "partial", "method", "tool", "model"],
)
def test_whatever_changes_its_answers_is_another_candidate(made: Callable[[str], Any]) -> None:
    """What is made anew in another process and is the same has the same version."""
    one, again, other = (version(made(word)) for word in ("lower", "lower", "upper"))
    assert one == again
    assert one != other


def test_where_a_tool_finds_the_world_makes_no_other_candidate() -> None:
    """It differs from process to process, and evidence would begin anew in each."""
    assert version(with_tool("lower", 1)) == version(with_tool("lower", 2))


def test_a_name_of_the_settings_is_the_model_that_it_stands_for() -> None:
    """Pointed elsewhere, nothing is known of it."""
    fast = Agent("a", model="fast")
    versions = [
        version(fast, models=lambda _name, model=model: ScriptedModel("yes", name=model))
        for model in ("small", "small", "other")
    ]
    assert versions[0] == versions[1] != versions[2]
    assert versions[0] == version(replace(fast, model=ScriptedModel("yes", name="small")))


def test_a_comparison_of_ones_own_is_known_by_its_code() -> None:
    """Also in a field; ours are known by their names."""
    one, again, other = (version(double, same_as(value)) for value in (1, 1, 2))
    assert one == again != other
    fields = [by_field({"total": same_as(value)}) for value in (1, 1, 2)]
    versions = [version(double, each) for each in fields]
    assert versions[0] == versions[1] != versions[2]
    assert version(double, close(0.1)) != version(double, close(0.2))
