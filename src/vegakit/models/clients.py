"""The provider's own SDK on a guarded HTTP client, under pydantic-ai's model class.

Its retries are off and its key is a placeholder: the real one is put on each request by its call.
Nothing is read from the environment but the certificates that the machine trusts.
"""

import asyncio
import ssl
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, cast

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
    from anthropic.types.beta import BetaMessageDeltaUsage, BetaUsage
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    class Tolerant(AnthropicModel):
        """Reads an answer that does not say what it used, at which the library stumbles: it has
        been paid for, so it is handed over. A usage of zero tells `incoming` that nobody knows."""

        def _process_response(self, response: Any, *rest: Any, **more: Any) -> Any:  # noqa: ANN401
            _fill(response, BetaUsage)
            return super()._process_response(response, *rest, **more)

        async def _process_streamed_response(self, *given: Any, **more: Any) -> Any:  # noqa: ANN401
            streamed = await super()._process_streamed_response(*given, **more)
            streamed._response = cast("Any", _FilledEvents(streamed._response))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            return streamed

    class _FilledEvents:
        """A stream of events; all but the next event are the library's business."""

        def __init__(self, events: Any) -> None:  # noqa: ANN401
            self._events = events

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            return getattr(self._events, name)

        def __aiter__(self) -> "_FilledEvents":
            return self

        async def __anext__(self) -> object:
            event = await anext(self._events)
            if event.type == "message_start" and event.message is not None:
                _fill(event.message, BetaUsage)
            elif event.type == "message_delta":
                _fill(event, BetaMessageDeltaUsage)
            return event

    sdk = AsyncAnthropic(api_key=_PLACEHOLDER, base_url=base_url, http_client=http, max_retries=0)
    return Tolerant(model, provider=AnthropicProvider(anthropic_client=sdk))


def _fill(answer: Any, usage: Any) -> None:  # noqa: ANN401
    """The library does not check what it reads, so a field that must be there may be None."""
    if answer.usage is None:
        answer.usage = usage.model_construct(input_tokens=0, output_tokens=0)


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
