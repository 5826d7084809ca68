"""The record of a provider: everything that is particular to it, in the one file that it has in
`known`.

Nothing here imports a codec, so that the records stay cheap to load: a wire imports its codec when
a model is built.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from vegakit.errors import SettingsError

if TYPE_CHECKING:
    from vegakit.wires import Header, Wire

_VARIABLE = re.compile(r"{(\w+)}")

PixelSize: TypeAlias = tuple[int, int]
ReadReset: TypeAlias = Callable[[str, str], timedelta | None]
"""How long a limit lasts, from the header that says so and the Date of the answer."""


class OutgoingRequest(NamedTuple):
    """A request that is about to be sent, for whoever signs it."""

    url: str
    body: bytes


Authorize: TypeAlias = (
    "Callable[[str, OutgoingRequest], tuple[Header, ...] | Awaitable[tuple[Header, ...]]]"
)
"""The headers that prove who asks, from a key and what is asked."""


class LimitHeaders(NamedTuple):
    """Headers that tell what is left and until when; `{}` is `requests` or `tokens`."""

    left: str
    reset: str
    read_reset: ReadReset


class ProviderWire(Struct, frozen=True):
    """A wire format of a provider, by the prefix of model names that ask for it. `codec` loads it;
    without one, pydantic-ai speaks for us. `base_url` may name variables of the environment, such
    as `{AWS_REGION}`. `fields` are sent with every request, `own_fields` only at the provider's own
    address. `spellings` are parts of an address that variables may lead to, with what is meant."""

    name: str
    base_url: str
    codec: "Callable[[], Wire] | None"
    authorize: Authorize
    fields: Mapping[str, Any] = {}
    own_fields: Mapping[str, Any] = {}
    spellings: Mapping[str, str] = {}

    def address(self, base_url: str | None) -> str:
        """Return where the provider is reached: as the settings say, or at its own address."""
        from vegakit.config import environment_variable  # only a model that is built needs it

        named = {name: environment_variable(name) for name in _VARIABLE.findall(self.base_url)}
        if base_url is None and not all(named.values()):
            missing = ", ".join(name for name, value in named.items() if not value)
            raise SettingsError(
                f"where {self.name} is reached is not known; set {missing} in your shell, or "
                "base_url in the provider's settings"
            )
        if base_url is not None:
            return base_url.rstrip("/")
        address = self.base_url.format_map({n: value.rstrip("/") for n, value in named.items()})
        for written, meant in self.spellings.items():
            address = address.replace(written, meant)
        return address


class ProviderRecord(Struct, frozen=True):
    """The record of a provider. `own_models` finds names that need no prefix, for the first of its
    wires; by default none. `image_tokens` is the most that an image of this size is billed as, by
    model. `tokens_a_byte` bounds the tokens of text. `key_format` is a text that all keys hold and
    the regex of a key, where `telemetry` does not know it by itself. `no_json_beside_tools` finds
    models that take no schema for an answer beside tools. `key_variable` holds the key unless the
    settings say otherwise; by default it is `<NAME>_API_KEY`. `keyless` is true for one that may be
    asked without a key, `free_at_home` for one whose own address is this machine, where nothing is
    billed."""

    name: str
    wires: tuple[ProviderWire, ...]
    image_tokens: Callable[[str, PixelSize], int]
    limit_headers: LimitHeaders
    own_models: str = r"(?!)"
    tokens_a_byte: float = 1.0
    key_format: tuple[str, str] | None = None
    no_json_beside_tools: str = r"(?!)"
    key_variable: str = ""
    keyless: bool = False
    free_at_home: bool = False

    def __post_init__(self) -> None:
        if not self.key_variable:
            msgspec.structs.force_setattr(self, "key_variable", f"{self.name.upper()}_API_KEY")


# What records are made of.


def _never(_reset: str, _date: str) -> None:
    return None


NO_LIMIT_HEADERS = LimitHeaders("", "", _never)
"""A provider that says nothing of its limits."""

_DURATION = re.compile(
    r"(?:(?P<hours>\d{1,4})h)?(?:(?P<minutes>\d{1,6})m(?!s))?"
    r"(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)(?:s|$))?(?:(?P<milliseconds>\d{1,9}(?:\.\d{1,9})?)ms)?",
    re.ASCII,
)


def by_header(name: str, form: str = "{}") -> Authorize:
    """Put the key into a header of this name, as `form` spells it."""
    header = name.encode()

    def authorize(key: str, _: OutgoingRequest) -> "tuple[Header, ...]":
        return ((header, form.format(key).encode("latin-1")),) if key else ()

    return authorize


def squares(size: PixelSize, side: int) -> int:
    """Return how many squares of this side cover an image."""
    return ceil(size[0] / side) * ceil(size[1] / side)


def until_time(reset: str, date: str) -> timedelta | None:
    """Read a time. It is held against the answer's own Date, so that a clock of ours that is wrong
    does no harm."""
    from email.utils import parsedate_to_datetime

    try:
        return datetime.fromisoformat(reset) - parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return None


def after_duration(reset: str, _: str) -> timedelta | None:
    """Read a duration such as `6m0s` or `20ms`."""
    parts = _DURATION.fullmatch(reset)
    if parts is None or not reset:
        return None
    return timedelta(**{unit: float(number) for unit, number in parts.groupdict("0").items()})
