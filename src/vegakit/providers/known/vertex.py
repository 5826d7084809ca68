"""Google Vertex AI: Gemini's generateContent, with tokens of the account that the machine has."""

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any

from vegakit.errors import SettingsError
from vegakit.providers.known.google import BEFORE_GEMINI_3, gemini_image_tokens
from vegakit.providers.provider import (
    NO_LIMIT_HEADERS,
    OutgoingRequest,
    ProviderRecord,
    ProviderWire,
)

if TYPE_CHECKING:
    from vegakit.wires import Header, Wire

_URL = (
    "https://{GOOGLE_CLOUD_LOCATION}-aiplatform.googleapis.com/v1/projects/{GOOGLE_CLOUD_PROJECT}"
    "/locations/{GOOGLE_CLOUD_LOCATION}"
)
_GLOBAL = {"//global-aiplatform": "//aiplatform"}
"""The one location whose host does not begin with its name."""
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def _gemini() -> "Wire":
    from vegakit.wires import VERTEX

    return VERTEX


async def _authorize(key: str, _: OutgoingRequest) -> "tuple[Header, ...]":
    """A key of the settings is an access token; without one, Google's library finds the account.
    It may ask the network for a token, which costs nothing, so it runs beside the event loop."""
    token = key or await asyncio.to_thread(_read_token)
    return ((b"authorization", b"Bearer " + token.encode("latin-1")),)


def _read_token() -> str:
    try:
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request
    except ImportError as error:
        raise SettingsError(
            f"Vertex AI needs a library that is not installed ({error.name or error}); "
            "type: pip install 'vegakit[vertex]'"
        ) from error
    try:
        account = _account()
        if not account.valid:
            account.refresh(Request())
    except GoogleAuthError as error:
        raise SettingsError(
            f"no account for Vertex AI was found ({type(error).__name__}); type: gcloud auth "
            "application-default login, or set GOOGLE_APPLICATION_CREDENTIALS"
        ) from error
    return account.token


@cache
def _account() -> Any:  # noqa: ANN401
    import google.auth

    library: Any = google.auth
    return library.default(scopes=[_SCOPE])[0]


PROVIDER = ProviderRecord(
    name="vertex",
    wires=(ProviderWire("vertex", _URL, _gemini, _authorize, spellings=_GLOBAL),),
    image_tokens=gemini_image_tokens,
    limit_headers=NO_LIMIT_HEADERS,
    no_json_beside_tools=BEFORE_GEMINI_3,
    key_variable="VERTEX_ACCESS_TOKEN",
    keyless=True,
)
