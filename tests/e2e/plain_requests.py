"""Requests of OpenAI's format for a model that was never taught to call tools.

A grammar lets it write nothing but a call. Whether it calls is a rule: after a question it does,
after a tool's result it talks. Which tool and with which arguments is the model's own choice.
"""

import json
from typing import Any

__all__ = ["BOUNDED", "BRIEF", "Json", "as_plain", "as_tool_call", "is_forced"]

Json = dict[str, Any]

BRIEF = "-brief"
"""A model of a name that ends so answers with one sentence; else it may talk without end."""

BOUNDED = "-bounded"
"""A model with this in its name is told of tools in few words, and writes short arguments: those of
a coding agent are long to read, and a small model would write a file without end."""

_SENTENCE = 'root ::= [A-Za-z ,]{20,100} "."'
_KEPT = ("max_tokens", "max_completion_tokens", "temperature", "response_format")
_ROLES = {"developer": "system", "tool": "user"}


def is_forced(request: Json) -> bool:
    choice = request.get("tool_choice", "auto")
    after_question = request["messages"][-1]["role"] != "tool"
    return bool(request.get("tools")) and choice != "none" and (choice != "auto" or after_question)


def as_plain(request: Json) -> Json:
    """The same request without tools, in the words that the model's template knows."""
    messages = [_plain_message(message) for message in request["messages"]]
    plain = {name: request[name] for name in _KEPT if name in request} | {"messages": messages}
    if is_forced(request):
        functions = [tool["function"] for tool in request["tools"]]
        if BOUNDED not in request["model"]:
            return _as_forced(plain, functions, at=0)
        # Behind all that the next request begins with, too: that is not read a second time.
        return _as_forced(plain, [*map(_bounded, functions)], at=len(messages) - 1)
    if request["model"].endswith(BRIEF) and "response_format" not in request:
        return plain | {"grammar": _SENTENCE}
    return plain


def _as_forced(plain: Json, functions: list[Json], *, at: int) -> Json:
    told = "\n".join(["Answer with a call of one of these tools:", *map(json.dumps, functions)])
    shape = {"name": "call", "schema": {"anyOf": [_call_schema(each) for each in functions]}}
    said: list[Json] = plain["messages"]
    return plain | {
        "messages": [*said[:at], {"role": "system", "content": told}, *said[at:]],
        "response_format": {"type": "json_schema", "json_schema": shape},
    }


def as_tool_call(whole: Json) -> Json:
    """The answer to a forced request, with the call it holds."""
    (choice,) = whole["choices"]
    written = json.loads(choice["message"]["content"])
    function = {"name": written["name"], "arguments": json.dumps(written["arguments"])}
    call = {"index": 0, "id": f"call_{whole['id']}", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return whole | {"choices": [choice | {"message": message, "finish_reason": "tool_calls"}]}


def _bounded(function: Json) -> Json:
    """The same tool without what is said of its parameters, and with bounds on them."""
    parameters = function["parameters"]
    required = parameters.get("required", [])
    properties = {name: _short(parameters["properties"][name]) for name in required}
    shape = {"type": "object", "properties": properties, "required": required}
    return {"name": function["name"], "parameters": shape}


def _short(schema: Json) -> Json:
    if schema.get("type") == "array":
        return {"type": "array", "maxItems": 0}
    return {"type": "string", "maxLength": 16} if schema.get("type") == "string" else schema


def _plain_message(message: Json) -> Json:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    content = json.dumps(calls) if calls else message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    return {"role": _ROLES.get(message["role"], message["role"]), "content": content}


def _call_schema(function: Json) -> Json:
    return {
        "type": "object",
        "properties": {"name": {"const": function["name"]}, "arguments": function["parameters"]},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
