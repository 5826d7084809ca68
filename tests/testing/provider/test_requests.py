"""What is read from the bodies of the three APIs."""

import json
from typing import Any

import pytest

from tests.testing.provider.clients import CITY
from vegakit.conversation import Finish
from vegakit.testing import Api, ProviderReply, ProviderRequest
from vegakit.testing.provider.script import Route, read_request
from vegakit.testing.provider.wire import resolve_reply

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}}


def read(**body: Any) -> ProviderRequest:
    return read_request(1, Route(Api.CHAT), json.dumps(body).encode(), {}, 1, 0)


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [user({"type": "text", "text": "a"}), user({"type": "text", "text": "hi"})]},
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]},
        {"messages": [user({"type": "text", "text": "h"}, IMAGE, {"type": "text", "text": "i"})]},
        {"input": "hi"},
        {"input": [user({"type": "input_text", "text": "hi"}), {"type": "reasoning"}]},
    ],
)
def test_the_text_is_that_of_the_last_user_message(body: dict[str, Any]) -> None:
    """However its parts are written."""
    assert read(**body).text == "hi"


@pytest.mark.parametrize(
    "results",
    [
        [{"role": "tool", "content": "1"}, {"role": "tool", "content": None}],
        [user({"type": "tool_result", "content": "1"}, {"type": "tool_result", "content": []})],
        [{"type": "function_call_output", "output": "1"}, {"type": "function_call_output"}],
    ],
)
def test_results_are_counted_and_keep_the_text(results: list[Any]) -> None:
    """Two results since the question, in each API's way."""
    request = read(messages=[{"role": "user", "content": "hi"}, *results])
    assert (request.text, request.tool_results) == ("hi", 2)


def test_images_are_counted() -> None:
    """In all messages, by data or by address."""
    kinds = ["image_url", "input_image"]
    request = read(messages=[user(IMAGE), user(*({"type": kind} for kind in kinds))])
    assert request.images == 3


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_the_limit_of_tokens_has_three_names(field: str) -> None:
    """And bounds what is billed."""
    request = read(input="hi", **{field: 7})
    assert request.max_tokens == 7
    usage = resolve_reply(ProviderReply("x" * 400), request).usage
    assert usage is not None
    assert usage.output_tokens == 7


@pytest.mark.parametrize(
    "body",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"schema": CITY}}},
        {"text": {"format": {"type": "json_schema", "name": "x", "schema": CITY}}},
        {"output_config": {"format": {"type": "json_schema", "schema": CITY}}},
    ],
)
def test_a_schema_for_text_is_found(body: dict[str, Any]) -> None:
    """Then output is text, though there be tools that must be called."""
    request = read(input="hi", tools=[{"name": "a"}], tool_choice="required", **body)
    assert request.output_schema == CITY
    said = resolve_reply(ProviderReply(output=[1]), request)
    assert (said.text, said.calls, said.finish) == ("[1]", [], Finish.STOP)


@pytest.mark.parametrize(
    ("names", "choice", "expected"),
    [
        ("a b", None, None),
        ("a b", "auto", None),
        ("a b", "required", "b"),
        ("a b", {"type": "any"}, "b"),
        ("a b", {"type": "allowed_tools", "mode": "required", "tools": []}, "b"),
        ("a b", {"type": "tool", "name": "a"}, "a"),
        ("a b", {"type": "function", "function": {"name": "a"}}, "a"),
        ("a final_result b", {"type": "auto"}, "final_result"),
    ],
)
def test_a_tool_for_output_is_found(names: str, choice: Any, expected: str | None) -> None:
    """By what the client insists on; then output is a call of it."""
    tools = [{"name": name, "input_schema": CITY} for name in names.split()]
    request = read(input="hi", tools=tools, tool_choice=choice)
    assert request.output_tool == expected
    said = resolve_reply(ProviderReply(output={"city": "Rome"}), request)
    assert [call.name for call in said.calls] == ([expected] if expected else [])
    assert said.finish is (Finish.TOOL_CALLS if expected else Finish.STOP)
