"""OpenAI: Responses, and Chat Completions, which with a `base_url` serves every server that speaks
it, also one on this machine.
"""

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, TypeAlias

from vegakit.providers.provider import (
    LimitHeaders,
    PixelSize,
    ProviderRecord,
    ProviderWire,
    after_duration,
    by_header,
    squares,
)

if TYPE_CHECKING:
    from vegakit.wires import Wire

_URL = "https://api.openai.com/v1"
_BEARER = by_header("authorization", "Bearer {}")
NOT_STORED = {"store": False}
"""Answers are kept by us alone, so that nothing that is billed later lies on a server."""
_STANDARD_TIER = {"service_tier": "default"}
"""Else an account's own setting may choose a more expensive tier than is reserved for."""

_TokenRule: TypeAlias = Callable[[PixelSize], int]


def load_responses() -> "Wire":
    """Return the codec of Responses."""
    from vegakit.wires import RESPONSES

    return RESPONSES


def load_chat() -> "Wire":
    """Return the codec of Chat Completions."""
    from vegakit.wires import CHAT

    return CHAT


# Images: tiles of 512 after scaling to 2,048 and then 768, or squares of 32 times a factor, by
# model.


def _tiles(base: int, each: int) -> _TokenRule:
    def tokens(size: PixelSize) -> int:
        shrink = min(1.0, 2_048 / max(size))
        shrink = min(shrink, 768 / min(size))
        return base + each * squares((ceil(size[0] * shrink), ceil(size[1] * shrink)), 512)

    return tokens


def _patches(factor: float, most: int = 1_536) -> _TokenRule:
    return lambda size: ceil(min(most, squares(size, 32)) * factor)


_IMAGES: tuple[tuple[str, _TokenRule], ...] = (
    ("gpt-4o-mini", _tiles(2_833, 5_667)),
    ("gpt-4o", _tiles(85, 170)),
    ("gpt-4.1-mini", _patches(1.62)),
    ("gpt-4.1-nano", _patches(2.46)),
    ("gpt-4.1", _tiles(85, 170)),
    ("gpt-5-mini", _patches(1.62)),
    ("gpt-5-nano", _patches(2.46)),
    ("o4-mini", _patches(1.72)),
    ("o1", _tiles(75, 150)),
    ("o3", _tiles(75, 150)),
    ("", lambda size: max(_tiles(85, 170)(size), _patches(2.46, 10_000)(size))),
)
"""The first whose prefix fits. `gpt-5` and later ones change too often to be told apart."""


def openai_image_tokens(model: str, size: PixelSize) -> int:
    """Return the tokens of an image by the rule of its model."""
    return next(rule for prefix, rule in _IMAGES if model.startswith(prefix))(size)


_TOKENIZERS = (
    ("o200k_base", r"(ft:gpt-4o|((chat)?gpt-4o|gpt-4\.1|gpt-4\.5|o1|o3|o4-mini)(-|$)|gpt-5)"),
    ("cl100k_base", r"((ft:)?gpt-(4|3\.5-turbo)(-|$))"),
)
"""As OpenAI's own tokenizer names them for its models. Of a model that it does not name, such as
one that is newer, nothing is assumed."""


PROVIDER = ProviderRecord(
    name="openai",
    wires=(
        ProviderWire("openai", _URL, load_responses, _BEARER, NOT_STORED, _STANDARD_TIER),
        ProviderWire("openai-chat", _URL, load_chat, _BEARER, own_fields=_STANDARD_TIER),
    ),
    own_models=r"(chatgpt|gpt|ft:gpt)-|o\d",
    image_tokens=openai_image_tokens,
    tokenizers=_TOKENIZERS,
    limit_headers=LimitHeaders("x-ratelimit-remaining-{}", "x-ratelimit-reset-{}", after_duration),
)
