"""Helpers with which several wire formats make parts of theirs from our records (pure)."""

from collections.abc import Mapping
from typing import Any, cast

from vegakit.conversation import Media
from vegakit.errors import UserError
from vegakit.records import digest128

_MADE = "made_"


def with_fields(body: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body with the fields of a setting over ours. Objects are joined key by key, so that
    a field beside the limit on tokens does not take the limit away."""
    joined = dict(body)
    for name, value in fields.items():
        ours = joined.get(name)
        if isinstance(ours, dict) and isinstance(value, Mapping):
            value = with_fields(cast("dict[str, Any]", ours), cast("Mapping[str, Any]", value))  # noqa: PLW2901
        joined[name] = value
    return joined


def object_arguments(arguments: object) -> dict[str, Any]:
    """Return the arguments of a call for a format that takes nothing but an object. What a model of
    another format wrote that is none is shown to this one as it was."""
    if isinstance(arguments, dict):
        return cast("dict[str, Any]", arguments)
    return {"arguments": arguments}


def made_call_id(answer: str, index: int) -> str:
    """Return an id for a call that its provider gave none, from whatever names the answer. It is
    another one in every answer, since other formats refuse a conversation with an id twice."""
    return _MADE + digest128([answer, index])[:24]


def provider_call_id(call_id: str) -> str | None:
    """Return the id of a call, or None if it was made here: its provider would not know it."""
    return None if not call_id or call_id.startswith(_MADE) else call_id


def refuse_url(media: Media, provider: str) -> UserError:
    """Return the error of an image by an address that a format cannot carry."""
    return UserError(
        f"{provider} takes images by their data only, but this one is an address ({media.url}); "
        "read the image and send its data"
    )
