"""What is answered without a script: words in the last user message choose.

| word             | answer                                                                    |
|------------------|---------------------------------------------------------------------------|
| err:<s>[:<n>]    | HTTP status s, the first n times this very request comes; retry-after 1 s |
| quota, ctx       | the account has no money left; the prompt is too long                     |
| drop, hang       | the connection closes without a byte; nothing ever comes                  |
| drop-mid, stall  | the same after three pieces of a stream                                   |
| stream-error     | an error event after three pieces of a stream                             |
| wait:<ms>        | so long before the first byte                                             |
| slow             | 200 words, 50 ms apart                                                    |
| refuse, length   | ended by the content filter; ended by the limit of tokens                 |
| no-usage         | tokens are not reported                                                   |
| tools            | two parallel tool calls, then text once their results are there           |

Otherwise: the output that the client asked for, or five words.
"""

import re
from itertools import cycle, islice
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from vegakit.conversation import Finish
from vegakit.testing.provider.examples import example
from vegakit.testing.provider.requests import Api, Request
from vegakit.testing.provider.script import Answer, Break, Call, Drop, Failure, Hang, Reply

__all__ = ["answer_by_words"]

_FIVE_WORDS = "w0 w1 w2 w3 w4 "
_TWO_HUNDRED_WORDS = "".join(f"w{i} " for i in range(200))
_NUMBERED = re.compile(r"(?<!\S)(err|wait):(\d+)(?::(\d+))?(?!\S)", re.ASCII)

_INSTEAD: dict[str, Answer] = {
    "quota": Failure("quota"),
    "ctx": Failure("context_length"),
    "drop": Drop(),
    "hang": Hang(),
}
_CHANGES: dict[str, dict[str, Any]] = {
    "drop-mid": {"breaks": Break(3, Drop())},
    "stall": {"breaks": Break(3, Hang())},
    "slow": {"text": _TWO_HUNDRED_WORDS, "gap_ms": 50},
    "refuse": {"text": "", "output": UNSET, "finish": Finish.CONTENT_FILTER},
    "length": {"finish": Finish.LENGTH},
    "no-usage": {"usage": None},
}
_USUAL_STREAM_ERROR = {
    Api.ANTHROPIC: Failure(529),
    Api.CHAT: Failure(500),
    Api.RESPONSES: Failure(500),
}


def answer_by_words(request: Request) -> Answer:
    words = set(request.text.split())
    changes: dict[str, Any] = {}
    for name, number, times in _NUMBERED.findall(request.text):
        if name == "wait":
            changes["delay_ms"] = int(number)
        elif not times or request.attempt <= int(times):
            return Failure(int(number), retry_after_s=1)
    for word, answer in _INSTEAD.items():
        if word in words:
            return answer
    for word, change in _CHANGES.items():
        if word in words:
            changes |= change
    if "stream-error" in words:
        changes["breaks"] = Break(3, _USUAL_STREAM_ERROR[request.api])
    return replace(_plain_reply(request, words), **changes)


def _plain_reply(request: Request, words: set[str]) -> Reply:
    if "tools" in words and request.tools and not request.tool_results:
        return Reply(calls=_two_calls(request))
    if request.output_schema:
        return Reply(output=example(request.output_schema))
    if request.output_tool:
        return Reply(output=example(request.tools.get(request.output_tool, {})))
    return Reply(_FIVE_WORDS)


def _two_calls(request: Request) -> list[Call]:
    """Of the first two tools, or twice of the only one."""
    names = [name for name in request.tools if name != request.output_tool] or list(request.tools)
    chosen = enumerate(islice(cycle(names), 2))
    return [Call(name, example(request.tools[name], nth)) for nth, name in chosen]
