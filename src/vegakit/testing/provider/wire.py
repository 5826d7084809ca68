"""The formats of the test provider, by path, and its scripted replies with everything filled in
(kit).
"""

import re
from typing import NamedTuple

from msgspec import UNSET

from vegakit.conversation import Finish, Usage
from vegakit.records import to_json
from vegakit.testing.provider.script import (
    Api,
    ProviderReply,
    ProviderRequest,
    ProviderToolCall,
    Route,
)
from vegakit.wires import (
    ANTHROPIC_SERVER,
    BEDROCK_SERVER,
    CHAT_SERVER,
    GEMINI_SERVER,
    OLLAMA_SERVER,
    RESPONSES_SERVER,
    ServedCall,
    ServedReply,
    WireServer,
)

_CHARACTERS_A_TOKEN = 4


class _Place(NamedTuple):
    """Where a format is spoken. `shown` is how the path is told to whoever asks elsewhere; a verb
    of the path says whether an answer is streamed, where the body does not."""

    api: Api
    server: WireServer
    shown: str
    path: re.Pattern[str]
    streaming_verb: str = ""


_PLACES = (
    _Place(Api.ANTHROPIC, ANTHROPIC_SERVER, "/v1/messages", re.compile(r"/v1/messages")),
    _Place(Api.CHAT, CHAT_SERVER, "/v1/chat/completions", re.compile(r".*/chat/completions")),
    _Place(Api.RESPONSES, RESPONSES_SERVER, "/v1/responses", re.compile(r".*/v1/responses")),
    _Place(
        Api.GEMINI,
        GEMINI_SERVER,
        "/v1beta/models/MODEL:generateContent",
        re.compile(r".*/models/(?P<model>[^/:]+):(?P<verb>(?:g|streamG)enerateContent)"),
        "streamGenerateContent",
    ),
    _Place(
        Api.BEDROCK,
        BEDROCK_SERVER,
        "/model/MODEL/converse",
        re.compile(r"/model/(?P<model>[^/]+)/(?P<verb>converse(?:-stream)?)"),
        "converse-stream",
    ),
    _Place(Api.OLLAMA, OLLAMA_SERVER, "/api/chat", re.compile(r"/api/chat")),
)

SPOKEN_AT = tuple(f"POST {place.shown}" for place in _PLACES)


def find_route(method: str, path: str) -> tuple[Route, WireServer] | None:
    """Return the format that is spoken at a path; None if there is none."""
    for place in _PLACES:
        if method == "POST" and (found := place.path.fullmatch(path)):
            said = found.groupdict()
            streams = said["verb"] == place.streaming_verb if place.streaming_verb else None
            return Route(place.api, said.get("model", ""), streams), place.server
    return None


def resolve_reply(reply: ProviderReply, request: ProviderRequest) -> ServedReply:
    """Fill in what the script left out."""
    text, calls = reply.text, list(reply.calls)
    if reply.output is not UNSET:
        if request.output_tool and not request.output_schema:
            calls = [ProviderToolCall(request.output_tool, reply.output)]
        else:
            text = to_json(reply.output).decode()
    resolved_calls = [
        ServedCall(f"{request.n}_{index}", call.name, to_json(call.arguments).decode())
        for index, call in enumerate(calls)
    ]
    usage = _estimated_usage(request, text, resolved_calls) if reply.usage is UNSET else reply.usage
    finish = reply.finish or (Finish.TOOL_CALLS if calls else Finish.STOP)
    return ServedReply(text, reply.refusal, resolved_calls, usage, finish)


def _estimated_usage(request: ProviderRequest, text: str, calls: list[ServedCall]) -> Usage:
    """Never more output than was allowed: no provider bills for more."""
    answered = len(text) + sum(len(call.arguments) for call in calls)
    output = answered // _CHARACTERS_A_TOKEN + 1
    most = request.max_tokens or output
    return Usage(request.characters // _CHARACTERS_A_TOKEN + 1, min(output, most))
