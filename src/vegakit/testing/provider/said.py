"""A reply with nothing left open: what every wire format has to say in its own words."""

from msgspec import UNSET, Struct

from vegakit.conversation import Finish, Usage
from vegakit.records import to_json
from vegakit.testing.provider.requests import Request
from vegakit.testing.provider.script import Call, Reply

__all__ = ["Said", "SaidCall", "say"]

_CHARACTERS_A_TOKEN = 4


class SaidCall(Struct, frozen=True):
    """`ref` is the same for every format; each puts its own prefix before it."""

    ref: str
    name: str
    arguments: str


class Said(Struct, frozen=True):
    text: str
    refusal: str
    calls: list[SaidCall]
    usage: Usage | None
    finish: Finish


def say(reply: Reply, request: Request) -> Said:
    text, calls = reply.text, list(reply.calls)
    if reply.output is not UNSET:
        if request.output_tool and not request.output_schema:
            calls = [Call(request.output_tool, reply.output)]
        else:
            text = to_json(reply.output).decode()
    said_calls = [
        SaidCall(f"{request.n}_{index}", call.name, to_json(call.arguments).decode())
        for index, call in enumerate(calls)
    ]
    usage = _reckon(request, text, said_calls) if reply.usage is UNSET else reply.usage
    finish = reply.finish or (Finish.TOOL_CALLS if calls else Finish.STOP)
    return Said(text, reply.refusal, said_calls, usage, finish)


def _reckon(request: Request, text: str, calls: list[SaidCall]) -> Usage:
    """Never more output than was allowed: no provider bills for more."""
    answered = len(text) + sum(len(call.arguments) for call in calls)
    output = answered // _CHARACTERS_A_TOKEN + 1
    most = request.max_tokens or output
    return Usage(request.characters // _CHARACTERS_A_TOKEN + 1, min(output, most))
