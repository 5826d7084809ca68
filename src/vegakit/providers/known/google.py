"""Google AI Studio: Gemini's generateContent."""

from math import ceil
from typing import TYPE_CHECKING

from vegakit.providers.provider import (
    NO_LIMIT_HEADERS,
    PixelSize,
    ProviderRecord,
    ProviderWire,
    by_header,
)

if TYPE_CHECKING:
    from vegakit.wires import Wire

BEFORE_GEMINI_3 = r"gemini-[12]\b"
_TILE_TOKENS = 258
_LONGEST_SIDE = 3_072
_SMALLEST_TILE, _LARGEST_TILE = 256, 768
_WHOLE_IMAGE_TOKENS = 1_120


def _gemini() -> "Wire":
    from vegakit.wires import GEMINI

    return GEMINI


def gemini_image_tokens(_model: str, size: PixelSize) -> int:
    """Return the tokens of an image by both rules together: newer models count an image as a whole,
    older ones in tiles, whose side is two thirds of its shorter side within limits."""
    shrink = min(1.0, _LONGEST_SIDE / max(size))
    width, height = (max(1, side * shrink) for side in size)
    tile = min(_LARGEST_TILE, max(_SMALLEST_TILE, min(width, height) / 1.5))
    return _WHOLE_IMAGE_TOKENS + _TILE_TOKENS * ceil(width / tile) * ceil(height / tile)


PROVIDER = ProviderRecord(
    name="google",
    wires=(
        ProviderWire(
            "google",
            "https://generativelanguage.googleapis.com",
            _gemini,
            by_header("x-goog-api-key"),
            # Else an account's own setting may choose a more expensive tier than is reserved for.
            own_fields={"serviceTier": "standard"},
            own_paths=("/v1beta",),
        ),
    ),
    own_models=r"gemini-",
    image_tokens=gemini_image_tokens,
    limit_headers=NO_LIMIT_HEADERS,
    no_json_beside_tools=BEFORE_GEMINI_3,
    key_variable="GEMINI_API_KEY",
)
