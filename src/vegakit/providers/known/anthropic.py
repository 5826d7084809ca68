"""Anthropic: Messages."""

from math import ceil
from typing import TYPE_CHECKING

from vegakit.providers.provider import (
    LimitHeaders,
    PixelSize,
    ProviderRecord,
    ProviderWire,
    by_header,
    squares,
    until_time,
)

if TYPE_CHECKING:
    from vegakit.wires import Wire

_MOST_IMAGE_TOKENS = 4_784


def _messages() -> "Wire":
    from vegakit.wires import ANTHROPIC

    return ANTHROPIC


def anthropic_image_tokens(_model: str, size: PixelSize) -> int:
    """Return width × height / 750, or squares of 28, whichever is more, for every model."""
    return min(_MOST_IMAGE_TOKENS, max(ceil(size[0] * size[1] / 750), squares(size, 28)))


PROVIDER = ProviderRecord(
    name="anthropic",
    wires=(
        ProviderWire(
            "anthropic",
            "https://api.anthropic.com",
            _messages,
            by_header("x-api-key"),
            # Else an account's own setting may choose a more expensive tier than is reserved for.
            own_fields={"service_tier": "standard_only"},
            own_paths=("/v1", "/v1/messages"),
        ),
    ),
    own_models=r"claude-",
    closes_json=True,
    image_tokens=anthropic_image_tokens,
    limit_headers=LimitHeaders(
        "anthropic-ratelimit-{}-remaining", "anthropic-ratelimit-{}-reset", until_time
    ),
)
