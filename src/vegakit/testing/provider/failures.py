"""How each provider says that it failed: the same cause has another status, type and wording."""

from typing import NamedTuple

from vegakit.testing.provider.script import Failure

__all__ = ["Spelling", "spell_anthropic", "spell_openai"]


class Spelling(NamedTuple):
    status: int
    kind: str
    code: str | None
    message: str
    body: object


_ANTHROPIC_KINDS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_ANTHROPIC_CAUSES = {
    "quota": "Your credit balance is too low to access the Anthropic API.",
    "context_length": "prompt is too long: 250000 tokens > 200000 maximum",
}
_OPENAI_KINDS: dict[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("service_unavailable_error", None),
    529: ("overloaded_error", None),
}
_OPENAI_CAUSES = {
    "quota": (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
    "context_length": (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "This model's maximum context length is 128000 tokens.",
    ),
}


def spell_anthropic(failure: Failure) -> Spelling:
    if isinstance(failure.cause, int):
        status, message = failure.cause, f"status {failure.cause}, as scripted"
    else:
        status, message = 400, _ANTHROPIC_CAUSES[failure.cause]
    usual = "api_error" if status >= 500 else "invalid_request_error"
    kind, message = _ANTHROPIC_KINDS.get(status, usual), failure.message or message
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return Spelling(status, kind, None, message, body)


def spell_openai(failure: Failure) -> Spelling:
    if isinstance(failure.cause, int):
        status, message = failure.cause, f"status {failure.cause}, as scripted"
        usual = "server_error" if status >= 500 else "invalid_request_error"
        kind, code = _OPENAI_KINDS.get(status, (usual, None))
    else:
        status, kind, code, message = _OPENAI_CAUSES[failure.cause]
    message = failure.message or message
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return Spelling(status, kind, code, message, body)
