"""One connection, request after request: what is asked where, and who answers it."""

from collections.abc import Callable

from msgspec import DecodeError

from vegakit.records import to_json
from vegakit.testing.provider.answering import Exchange
from vegakit.testing.provider.anthropic import ANTHROPIC
from vegakit.testing.provider.http import BadRequestError, ClosedError, Connection, HttpRequest
from vegakit.testing.provider.log import Log
from vegakit.testing.provider.openai_chat import CHAT
from vegakit.testing.provider.openai_responses import RESPONSES
from vegakit.testing.provider.script import Choose, Failure
from vegakit.testing.provider.wire import WireFormat

__all__ = ["serve"]

_JSON = {"content-type": "application/json"}
_FORMATS = {
    ("POST", "/v1/messages"): ANTHROPIC,
    ("POST", "/v1/chat/completions"): CHAT,
    ("POST", "/v1/responses"): RESPONSES,
}
_MODEL = {
    "id": "loopback",
    "object": "model",
    "type": "model",
    "display_name": "Loopback",
    "created": 0,
    "created_at": "1970-01-01T00:00:00Z",
    "owned_by": "vegakit",
}
_ASIDE: dict[tuple[str, str], Callable[[HttpRequest], object]] = {
    ("POST", "/v1/messages/count_tokens"): lambda http: {"input_tokens": len(http.body) // 4},
    ("POST", "/v1/responses/input_tokens"): lambda http: {
        "object": "response.input_tokens",
        "input_tokens": len(http.body) // 4,
    },
    ("GET", "/v1/models"): lambda _: {"object": "list", "data": [_MODEL], "has_more": False},
}


async def serve(line: Connection, log: Log, choose: Choose) -> None:
    """Until the client leaves or is dropped."""
    try:
        while await _serve_one(line, log, choose):
            pass
    except ClosedError:
        pass
    finally:
        await line.aclose()


async def _serve_one(line: Connection, log: Log, choose: Choose) -> bool:
    try:
        http = await line.next_request()
    except BadRequestError as error:
        await _send(line, error.status, {"error": {"message": str(error)}})
        return False
    route = (http.method, http.path)
    if form := _FORMATS.get(route):
        await _exchange(line, form, http, log, choose)
    elif aside := _ASIDE.get(route):
        await _send(line, 200, aside(http))
    else:
        known = ", ".join(" ".join(known) for known in (*_FORMATS, *_ASIDE))
        message = f"no {http.method} {http.path} here; there is {known}"
        await _send(line, 404, {"error": {"type": "not_found_error", "message": message}})
    return http.keeps_alive


async def _exchange(
    line: Connection, form: WireFormat, http: HttpRequest, log: Log, choose: Choose
) -> None:
    try:
        request = log.received(form.api, http)
    except DecodeError as error:
        spelled = form.spell(Failure(400, f"the body does not fit this API: {error}"))
        await _send(line, spelled.status, spelled.body)
        return
    await Exchange(line, form, request, log).carry_out(choose)


async def _send(line: Connection, status: int, content: object) -> None:
    line.send_whole(status, _JSON, to_json(content))
    await line.flush()
