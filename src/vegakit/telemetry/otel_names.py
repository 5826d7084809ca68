"""A call in OpenTelemetry's words: the GenAI semantic conventions, and `vega.*` where they end.

The names are spelled here because their Python package marks all of them as moved elsewhere.
"""

import re
from typing import Any

from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.money import NANOS
from vegakit.records import to_json

__all__ = ["Attribute", "attributes_of", "span_name"]

Attribute = str | bool | int | float | list[str]

_OPERATIONS = {
    CallKind.ASK: "invoke_agent",
    CallKind.MODEL: "chat",
    CallKind.TOOL: "execute_tool",
}
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "grok": "x_ai",
    "xai": "x_ai",
}
_ERROR_NAME = re.compile(r"[A-Za-z_][\w.]{0,100}(?=:|$)")


def span_name(call: CallTraced) -> str:
    operation = _OPERATIONS.get(call.kind)
    return f"{operation} {_subject(call)}".strip() if operation else call.name


def attributes_of(call: CallTraced) -> dict[str, Attribute]:
    """The user's own attributes first, so that they cannot pose as ours."""
    theirs = {key: _attribute(value) for key, value in call.attributes.items()}
    ours = _identity(call) | _usage(call) | _outcome(call)
    return theirs | {key: value for key, value in ours.items() if value}


def _subject(call: CallTraced) -> str:
    match call.kind:
        case CallKind.ASK:
            return call.agent or call.name
        case CallKind.MODEL:
            return (call.model or call.name).rpartition(":")[2]
        case _:
            return call.name


def _identity(call: CallTraced) -> dict[str, Any]:
    provider = call.model.partition(":")[0] if ":" in call.model else ""
    return {
        "gen_ai.operation.name": _OPERATIONS.get(call.kind),
        "gen_ai.agent.name": call.agent or (call.name if call.kind is CallKind.ASK else ""),
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": call.model.rpartition(":")[2],
        "gen_ai.tool.name": call.name if call.kind is CallKind.TOOL else "",
        "vega.kind": str(call.kind),
    }


def _usage(call: CallTraced) -> dict[str, Any]:
    return {
        "gen_ai.usage.input_tokens": call.input_tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": call.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": call.cache_write_tokens,
        "gen_ai.response.time_to_first_chunk": (call.first_token_ms or 0) / 1000,
        "vega.cost_usd": call.cost / NANOS,
        "vega.reserved_usd": call.reserved / NANOS,
        "vega.retries": call.retries,
    }


def _outcome(call: CallTraced) -> dict[str, Any]:
    return {
        "gen_ai.response.finish_reasons": [call.finish] if call.finish else None,
        "error.type": _error_type(call),
        "vega.status": str(call.status),
        "vega.content": to_json(call.content).decode() if call.content is not None else None,
    }


def _error_type(call: CallTraced) -> str:
    """Of few values, as the convention asks: an exception's name, or how the call ended."""
    if call.status is CallStatus.OK:
        return ""
    name = _ERROR_NAME.match(call.error)
    return name[0] if name else str(call.status)


def _attribute(value: object) -> Attribute:
    if isinstance(value, str | bool | int | float):
        return value
    return to_json(value).decode()
