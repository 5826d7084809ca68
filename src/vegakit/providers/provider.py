"""The record of a provider: everything that is particular to it, in the one file that it has in
`known`.

Nothing here imports pydantic-ai or an SDK, so that the records stay cheap to load: a wire imports
its library when a model is built.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

PixelSize: TypeAlias = tuple[int, int]
ReadReset: TypeAlias = Callable[[str, str], timedelta | None]
"""How long a limit lasts, from the header that says so and the Date of the answer."""

PLACEHOLDER_KEY = "read-for-each-call"
"""The key that an SDK is given: the real one is put on each request by its call."""


class LimitHeaders(NamedTuple):
    """Headers that tell what is left and until when; `{}` is `requests` or `tokens`."""

    left: str
    reset: str
    read_reset: ReadReset


class Wire(Struct, frozen=True):
    """A wire format of a provider, by the prefix of model names that ask for it. `key_form` is how
    the header spells the key. `connect` builds the library's model from a name, a base URL and a
    client whose every request is guarded; retries of the library must be off. `settings` are sent
    with every request."""

    name: str
    base_url: str
    key_header: str
    connect: "Callable[[str, str, httpx2.AsyncClient], Model]"
    key_form: str = "{}"
    settings: Mapping[str, Any] = {}


class ProviderRecord(Struct, frozen=True):
    """The record of a provider. `own_models` finds names that need no prefix, for the first of its
    wires; by default none. `image_tokens` is the most that an image of this size is billed as, by
    model. `tokens_a_byte` bounds the tokens of text. `key_format` is a text that all keys hold and
    the regex of a key, where `telemetry` does not know it by itself."""

    name: str
    wires: tuple[Wire, ...]
    image_tokens: Callable[[str, PixelSize], int]
    limit_headers: LimitHeaders
    own_models: str = r"(?!)"
    tokens_a_byte: float = 1.0
    key_format: tuple[str, str] | None = None

    @property
    def key_variable(self) -> str:
        """Return the variable that holds the key unless the settings say otherwise."""
        return f"{self.name.upper()}_API_KEY"


# What records are made of.


_DURATION = re.compile(
    r"(?:(?P<hours>\d{1,4})h)?(?:(?P<minutes>\d{1,6})m(?!s))?"
    r"(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)(?:s|$))?(?:(?P<milliseconds>\d{1,9}(?:\.\d{1,9})?)ms)?",
    re.ASCII,
)


def squares(size: PixelSize, side: int) -> int:
    """Return how many squares of this side cover an image."""
    return ceil(size[0] / side) * ceil(size[1] / side)


def until_time(reset: str, date: str) -> timedelta | None:
    """Read a time. It is held against the answer's own Date, so that a clock of ours that is wrong
    does no harm."""
    from email.utils import parsedate_to_datetime

    try:
        return datetime.fromisoformat(reset) - parsedate_to_datetime(date)
    except (ValueError, TypeError):
        return None


def after_duration(reset: str, _: str) -> timedelta | None:
    """Read a duration such as `6m0s` or `20ms`."""
    parts = _DURATION.fullmatch(reset)
    if parts is None or not reset:
        return None
    return timedelta(**{unit: float(number) for unit, number in parts.groupdict("0").items()})
