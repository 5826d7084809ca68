"""AWS Bedrock: Converse, with a bearer key of Bedrock or the keys of an account."""

import asyncio
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vegakit.concurrency import SteadyClock
from vegakit.errors import SettingsError
from vegakit.providers.known.anthropic import anthropic_image_tokens
from vegakit.providers.provider import (
    NO_LIMIT_HEADERS,
    OutgoingRequest,
    PixelSize,
    ProviderRecord,
    ProviderWire,
    squares,
)

if TYPE_CHECKING:
    from vegakit.wires import AwsKeys, Header, Wire

_URL = "https://bedrock-runtime.{AWS_REGION}.amazonaws.com"
_OTHER_NAMES = {"AWS_REGION": "AWS_DEFAULT_REGION"}
"""The command line of AWS reads the second."""
_ACCOUNT_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_TILE_TOKENS = 1_601
_CLOCK = SteadyClock()
_NO_KEYS = (
    "no keys for AWS were found; set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, in your shell; for profiles and roles type: "
    "pip install 'vegakit[bedrock]'"
)


def _converse() -> "Wire":
    from vegakit.wires import BEDROCK

    return BEDROCK


async def _authorize(key: str, outgoing: OutgoingRequest) -> "tuple[Header, ...]":
    """Send a bearer key, or sign the request with the keys of the account. Finding those may read
    files and ask the network, so it runs beside the event loop."""
    if key:
        return ((b"authorization", b"Bearer " + key.encode("latin-1")),)
    keys = _keys_of_environment() or await asyncio.to_thread(_keys_of_account)
    return _signed(outgoing, keys)


def _signed(outgoing: OutgoingRequest, keys: "AwsKeys") -> "tuple[Header, ...]":
    from vegakit.wires import SignedRequest, signed_headers

    url = urlsplit(outgoing.url)
    request = SignedRequest(url.netloc, url.path, outgoing.body)
    now = datetime.fromtimestamp(_CLOCK.now() / 1_000, UTC)
    sent = signed_headers(request, keys, _region(url.hostname or ""), now)
    return tuple((name.encode(), value.encode("latin-1")) for name, value in sent.items())


def _region(host: str) -> str:
    """Return the region that the host is in; another server is signed for as the shell says."""
    from vegakit.config import environment_variable

    match host.split("."):
        case [_, region, "amazonaws", *_]:
            return region
        case _:
            region = environment_variable("AWS_REGION")
            return region or environment_variable("AWS_DEFAULT_REGION") or "us-east-1"


def _keys_of_environment() -> "AwsKeys | None":
    from vegakit.config import environment_variable
    from vegakit.wires import AwsKeys

    names = (*_ACCOUNT_KEYS, "AWS_SESSION_TOKEN")
    key_id, secret, token = map(environment_variable, names)
    if not (key_id and secret):
        return None
    return AwsKeys(key_id, secret, token)


def _keys_of_account() -> "AwsKeys":
    """Profiles, roles and single sign-on, as botocore finds them; it renews keys that run out."""
    from vegakit.wires import AwsKeys

    try:
        found = _account()
    except ImportError as error:
        raise SettingsError(_NO_KEYS) from error
    if found is None:
        raise SettingsError(_NO_KEYS)
    frozen = found.get_frozen_credentials()
    return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token or "")


@cache
def _account() -> Any:  # noqa: ANN401
    from botocore.session import Session  # pyright: ignore[reportMissingTypeStubs]

    session: Any = Session()
    return session.get_credentials()


def _image_tokens(model: str, size: PixelSize) -> int:
    """Return the more of Claude's rule and of Llama's, up to four tiles and the whole."""
    tiles = min(4, squares(size, 560)) + 1
    return max(anthropic_image_tokens(model, size), _TILE_TOKENS * tiles)


PROVIDER = ProviderRecord(
    name="bedrock",
    wires=(
        ProviderWire(
            "bedrock",
            _URL,
            _converse,
            _authorize,
            # Else an account's own setting may choose a more expensive tier than is reserved for.
            own_fields={"serviceTier": {"type": "default"}},
            variables=_OTHER_NAMES,
        ),
    ),
    image_tokens=_image_tokens,
    closes_json=True,
    limit_headers=NO_LIMIT_HEADERS,
    key_variable="AWS_BEARER_TOKEN_BEDROCK",
    account_variables=_ACCOUNT_KEYS,
    keyless=True,
)
