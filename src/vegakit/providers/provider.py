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
from urllib.parse import urlsplit

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
    address. `spellings` are parts of an address that variables may lead to, with what is meant.
    `own_paths` are what a `base_url` must not end with, since the targets of the format begin so.
    `variables` are other names of a variable, for where it is not set; `host_variable` may name
    the server, with or without scheme and port, in place of `base_url`."""

    name: str
    base_url: str
    codec: "Callable[[], Wire] | None"
    authorize: Authorize
    fields: Mapping[str, Any] = {}
    own_fields: Mapping[str, Any] = {}
    spellings: Mapping[str, str] = {}
    own_paths: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    host_variable: str = ""

    def is_own(self, base_url: str | None) -> bool:
        """Return whether an address is the provider's own: the usual one, or one below it, as those
        of regions are. Where the usual one is a variable, whatever it says is."""
        usual = urlsplit(self.base_url).hostname
        if base_url is None or usual is None:
            return True
        own = re.sub(r"\\{\w+\\}", "[^.]+", re.escape(usual))
        return re.fullmatch(rf"(.+\.)?{own}", urlsplit(base_url).hostname or "") is not None

    def address(self, base_url: str | None) -> str:
        """Return where the provider is reached: as the settings say, or at its own address."""
        from vegakit.config import environment_variable  # only a model that is built needs it

        if base_url is None and (host := environment_variable(self.host_variable)):
            base_url = _server_address(host, self.base_url)
        if base_url is not None:
            return _without(base_url.rstrip("/"), self.own_paths)
        if missing := self.missing_variables():
            raise SettingsError(
                f"where {self.name} is reached is not known; set {', '.join(missing)} in your "
                "shell, or base_url in the provider's settings"
            )
        named = self._named_variables()
        address = self.base_url.format_map({n: value.rstrip("/") for n, value in named.items()})
        for written, meant in self.spellings.items():
            address = address.replace(written, meant)
        return address

    def missing_variables(self) -> tuple[str, ...]:
        """Return the variables that the provider's own address needs and that are not set."""
        return tuple(name for name, value in self._named_variables().items() if not value)

    def _named_variables(self) -> dict[str, str]:
        from vegakit.config import environment_variable

        return {
            name: environment_variable(name) or environment_variable(self.variables.get(name, ""))
            for name in _VARIABLE.findall(self.base_url)
        }


def _without(address: str, paths: tuple[str, ...]) -> str:
    """Whoever copies an address from elsewhere often copies the beginning of the path, too."""
    for path in paths:
        if address.endswith(path):
            return address.removesuffix(path).rstrip("/")
    return address


def _server_address(host: str, usual: str) -> str:
    """Return the address of a server that a variable names as its own tools read it: a host, a port
    or both, at the usual port if nothing is said; with a scheme, at the port of that."""
    scheme, separator, place = host.strip().rstrip("/").rpartition("://")
    if separator:
        return f"{scheme}://{_reachable(place)}"
    found = _SERVER.fullmatch(place)
    name, port = (found[1], found[2]) if found else (place, usual.rpartition(":")[2])
    return f"http://{_reachable(name or '127.0.0.1')}:{port}"


_SERVER = re.compile(r"([^:\[\]]*|\[[^\]]*\]):(\d+)")


def _reachable(place: str) -> str:
    """A server listens on all addresses at 0.0.0.0; it is asked on this machine."""
    return re.sub(r"^(0\.0\.0\.0|\[::\])(?=$|[:/])", "127.0.0.1", place)


class ProviderRecord(Struct, frozen=True):
    """The record of a provider. `own_models` finds names that need no prefix, for the first of its
    wires; by default none. `image_tokens` is the most that an image of this size is billed as, by
    model. `tokens_a_byte` bounds the tokens of text; `tokenizers` are the names of those that count
    them exactly, each with a regex of the models that are billed by it. `key_format` is a text that
    all keys hold and the regex of a key, where `telemetry` does not know it by itself.
    `no_json_beside_tools` finds models that take no schema for an answer beside tools;
    `closes_json` is true for one whose answers by a schema have only keys that it names.
    `key_variable` holds the key unless the settings say otherwise; by default it is
    `<NAME>_API_KEY`. `account_variables` hold the keys of an account, which together do where there
    is none. `keyless` is true for one that may be asked without a key, `free_at_home` for one whose
    own address is this machine, where nothing is billed."""

    name: str
    wires: tuple[ProviderWire, ...]
    image_tokens: Callable[[str, PixelSize], int]
    limit_headers: LimitHeaders
    own_models: str = r"(?!)"
    tokens_a_byte: float = 1.0
    tokenizers: tuple[tuple[str, str], ...] = ()
    key_format: tuple[str, str] | None = None
    no_json_beside_tools: str = r"(?!)"
    closes_json: bool = False
    key_variable: str = ""
    account_variables: tuple[str, ...] = ()
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
