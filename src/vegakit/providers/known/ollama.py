"""Ollama: models on this machine, which cost nothing."""

from typing import TYPE_CHECKING

from vegakit.providers.provider import (
    NO_LIMIT_HEADERS,
    PixelSize,
    ProviderRecord,
    ProviderWire,
    by_header,
    squares,
)

if TYPE_CHECKING:
    from vegakit.wires import Wire


def _chat() -> "Wire":
    from vegakit.wires import OLLAMA

    return OLLAMA


def _image_tokens(_model: str, size: PixelSize) -> int:
    """Return a patch of 14 each, more than any of its models uses."""
    return squares(size, 14)


PROVIDER = ProviderRecord(
    name="ollama",
    wires=(
        ProviderWire(
            "ollama",
            "http://127.0.0.1:11434",
            _chat,
            by_header("authorization", "Bearer {}"),
            # Without these a prompt that is too long is cut without a word.
            fields={"truncate": False, "shift": False},
            own_paths=("/api", "/v1"),
            host_variable="OLLAMA_HOST",
        ),
    ),
    image_tokens=_image_tokens,
    limit_headers=NO_LIMIT_HEADERS,
    no_json_beside_tools=r"",
    keyless=True,
    free_at_home=True,
)
