"""Functions as tools: what the model is told, what is checked, what comes back."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from vegakit.errors import UserError
from vegakit.tools import FunctionTool, ToolArgumentsError, function_tool


def weather(deps: object, city: str, days: int = 1) -> str:
    """The weather of a city."""
    return f"{city} {days} {deps}"


def call(tool: FunctionTool, arguments: dict[str, Any], deps: object = None) -> str:
    return asyncio.run(tool.call(arguments, deps))


def test_the_model_is_told_name_purpose_and_parameters() -> None:
    """From the hints and the docstring; `deps` is not the model's business."""
    spec = function_tool(weather).spec
    assert (spec.name, spec.description) == ("weather", "The weather of a city.")
    assert set(spec.parameters["properties"]) == {"city", "days"}
    assert spec.parameters["required"] == ["city"]
    assert spec.parameters["additionalProperties"] is False


def test_arguments_are_checked_and_defaults_kept() -> None:
    """What the model leaves out is the function's default."""
    assert call(function_tool(weather), {"city": "Paris"}, "x") == "Paris 1 x"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "city: Field required"),
        ({"city": 3}, "city: Input should be a valid string"),
        ({"city": "a", "zoom": 1}, "zoom: Extra inputs are not permitted"),
    ],
)
def test_wrong_arguments_are_told_in_words(arguments: dict[str, Any], problem: str) -> None:
    """So that the model can correct itself; the function is not called."""
    with pytest.raises(ToolArgumentsError, match=f"arguments of weather are wrong: {problem}"):
        call(function_tool(weather), arguments)


def test_results_that_are_not_text_become_json() -> None:
    """Dataclasses, lists and numbers alike."""

    @dataclass
    class Point:
        x: int

    async def points(count: int) -> list[Point]:
        return [Point(n) for n in range(count)]

    assert call(function_tool(points), {"count": 2}) == '[{"x":0},{"x":1}]'


def test_a_parameter_needs_a_type() -> None:
    """The error says what to write."""

    def untyped(city):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        return city  # pyright: ignore[reportUnknownVariableType]

    with pytest.raises(
        UserError, match="parameter 'city' has no type; write for example `city: str`"
    ):
        function_tool(untyped)  # pyright: ignore[reportUnknownArgumentType]


def test_open_ended_parameters_cannot_be_described() -> None:
    """A model calls by name."""

    def many(*cities: str) -> str:
        return str(cities)

    with pytest.raises(UserError, match="named parameters only"):
        function_tool(many)


def test_a_tool_may_be_named_and_timed() -> None:
    """And say that calling it again does no harm."""
    tool = FunctionTool(weather, name="forecast", idempotent=True, timeout_ms=5)
    assert (tool.spec.name, tool.idempotent, tool.timeout_ms) == ("forecast", True, 5)
