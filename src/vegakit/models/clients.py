"""The provider's own SDK on a guarded HTTP client, under pydantic-ai's model class.

Its retries are off and its key is a placeholder: the real one is put on each request by its call.
Nothing is read from the environment but the certificates that the machine trusts.
"""

import asyncio
import ssl
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import httpx2
from pydantic_ai.models import Model

from vegakit.models.access import ProviderAccess
from vegakit.models.admission import use_admission
from vegakit.models.naming import Wire
from vegakit.models.server_limits import ServerLimits, limits_in

__all__ = ["Client", "GuardedTransport", "connect"]

_PLACEHOLDER = "read-for-each-call"
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100)


class Client(NamedTuple):
    model: Model
    transport: "GuardedTransport"


def connect(wire: Wire, model: str, access: ProviderAccess) -> Client:
    base_url = access.base_url or wire.base_url
    transport = GuardedTransport(access.proxy, secure=base_url.startswith("https:"))
    http = httpx2.AsyncClient(transport=transport, trust_env=False)
    return Client(_MAKERS[wire.name](model, base_url, http), transport)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Its connections belong to one event loop; in another loop it begins anew."""

    def __init__(self, proxy: str | None, *, secure: bool) -> None:
        self.on_limits: Callable[[ServerLimits], None] | None = None
        self._proxy = proxy
        self._secure = secure
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inner: httpx2.AsyncHTTPTransport | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        use_admission()
        response = await self._connections().handle_async_request(request)
        if self.on_limits and (limits := limits_in(response.headers)):
            self.on_limits(limits)
        return response

    async def aclose(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            await inner.aclose()

    def _connections(self) -> httpx2.AsyncHTTPTransport:
        loop = asyncio.get_running_loop()
        if self._inner is None or self._loop is not loop:
            verify = _certificates() if self._secure or self._proxy else False
            self._inner = httpx2.AsyncHTTPTransport(
                verify=verify, limits=_LIMITS, proxy=self._proxy
            )
            self._loop = loop
        return self._inner


@cache
def _certificates() -> ssl.SSLContext:
    """Once for all models: reading them takes longer than a call."""
    return httpx2.create_ssl_context()


def _anthropic(model: str, base_url: str, http: httpx2.AsyncClient) -> Model:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    sdk = AsyncAnthropic(api_key=_PLACEHOLDER, base_url=base_url, http_client=http, max_retries=0)
    return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=sdk))


def _openai_responses(model: str, base_url: str, http: httpx2.AsyncClient) -> Model:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    sdk = AsyncOpenAI(api_key=_PLACEHOLDER, base_url=base_url, http_client=http, max_retries=0)
    return OpenAIResponsesModel(model, provider=OpenAIProvider(openai_client=sdk))


def _openai_chat(model: str, base_url: str, http: httpx2.AsyncClient) -> Model:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    sdk = AsyncOpenAI(api_key=_PLACEHOLDER, base_url=base_url, http_client=http, max_retries=0)
    return OpenAIChatModel(model, provider=OpenAIProvider(openai_client=sdk))


_MAKERS: dict[str, Callable[[str, str, httpx2.AsyncClient], Model]] = {
    "anthropic": _anthropic,
    "openai": _openai_responses,
    "openai-chat": _openai_chat,
}
