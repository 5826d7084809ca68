"""A model of any other provider, through pydantic-ai: `pydantic-ai:groq:llama-3.3-70b` (an extra).

The library's own client goes through a guarded HTTP transport: a hidden retry would be a request
nobody reserved money for, so the second request of a call is refused.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import cache
from typing import Any, TypeAlias, cast

import httpx2
from pydantic_ai.exceptions import UserError as TheirUserError
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings as TheirSettings

from vegakit.conversation import ModelChunk, ModelReply, ModelRequest, OutputSpec, ToolSpec
from vegakit.errors import SettingsError, VegaError
from vegakit.prices import PriceRow
from vegakit.providers.access import (
    ModelName,
    ProviderAccess,
    ServerLimits,
    parse_limits,
)
from vegakit.providers.admission import use_admission
from vegakit.providers.catalog import listed_price
from vegakit.providers.conversion import (
    FAILURES,
    ChunkConverter,
    RequestTemplate,
    decode_error,
    decode_reply,
    encode_message,
    request_template,
    timed_out,
)
from vegakit.providers.model import key_of, max_tokens_if_unsaid, timeout_of
from vegakit.providers.token_bounds import bound_of_messages

_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
_CONNECT_TIMEOUT_S = 30.0
_MAX_TEMPLATES = 64

_Shared: TypeAlias = tuple[str, tuple[ToolSpec, ...], OutputSpec | None]


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Its connections belong to one event loop; in another loop it begins anew."""

    def __init__(self, proxy: str | None) -> None:
        self.on_limits: Callable[[ServerLimits], None] | None = None
        self._proxy = proxy
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inner: httpx2.AsyncHTTPTransport | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request that was admitted, and tell what its answer says of limits."""
        use_admission()
        response = await self._connections().handle_async_request(request)
        if self.on_limits and (limits := parse_limits(response.headers)):
            self.on_limits(limits)
        return response

    async def aclose(self) -> None:
        """Let go of the connections."""
        inner, self._inner = self._inner, None
        if inner is not None:
            await inner.aclose()

    def _connections(self) -> httpx2.AsyncHTTPTransport:
        loop = asyncio.get_running_loop()
        if self._inner is None or self._loop is not loop:
            self._inner = httpx2.AsyncHTTPTransport(
                verify=_certificates(), limits=_LIMITS, proxy=self._proxy
            )
            self._loop = loop
        return self._inner


@cache
def _certificates() -> ssl.SSLContext:
    """Once for all models: reading them takes longer than a call."""
    return httpx2.create_ssl_context()


class PydanticAIModel:
    """Implements `ports.Model`. The library's model is made anew when the key changes, since its
    client keeps the key that it is made with."""

    def __init__(self, name: ModelName, access: ProviderAccess) -> None:
        self._name = name
        self._access = access
        self._transport = GuardedTransport(access.proxy)
        self._keyed: tuple[str, Model] = ("", self._build("read-for-each-call"))
        self._templates: list[tuple[_Shared, RequestTemplate]] = []
        self.price: PriceRow | None = access.price or listed_price(name.provider.name, name.model)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def name(self) -> str:
        """Return the name as it is written in programs."""
        return str(self._name)

    @property
    def context_tokens(self) -> int | None:
        """Return the size of the model's window; None if nobody knows it."""
        return self._keyed[1].context_window

    @property
    def default_max_tokens(self) -> int:
        """Return how long an answer may be if nobody says."""
        profile = self._keyed[1].profile
        return max_tokens_if_unsaid(
            reasons=bool(
                profile.get("thinking_always_enabled") or profile.get("thinking_enabled_by_default")
            )
        )

    def bound_input(self, request: ModelRequest) -> int:
        """Return no fewer tokens than the provider will bill as input."""
        messages_bound = bound_of_messages(self._name.provider, self._name.model, request)
        return self._template_of(request).bound + messages_bound

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Ask once, and return the reply."""
        model, template, messages, settings = await self._prepare(request)
        timeout_s = timeout_of(request)
        try:
            async with asyncio.timeout(timeout_s):
                response = await model.request(messages, settings, template.parameters)
        except TimeoutError:
            raise timed_out(self._name, timeout_s) from None
        except FAILURES as error:
            raise self._failed(error) from None
        return decode_reply(response, self._name, template.output_tool)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        """Ask once, and yield the answer piece by piece, the whole reply last."""
        model, template, messages, settings = await self._prepare(request)
        converter = ChunkConverter(template.output_tool)
        try:
            async with model.request_stream(messages, settings, template.parameters) as answer:
                events = cast("AsyncGenerator[Any]", aiter(answer))
                async with aclosing(events):
                    async for event in events:
                        for chunk in converter.of(event):
                            yield chunk
                response = answer.get()
        except FAILURES as error:
            raise self._failed(error) from None
        yield decode_reply(response, self._name, template.output_tool)

    def subscribe_limits(self, listener: Callable[[ServerLimits], None]) -> None:
        """Tell the listener what the provider says of its limits."""
        self._transport.on_limits = listener

    async def aclose(self) -> None:
        """Let go of its connections; it may be asked again."""
        await self._transport.aclose()

    async def _prepare(
        self, request: ModelRequest
    ) -> tuple[Model, RequestTemplate, list[ModelMessage], TheirSettings]:
        key = await key_of(self._name, self._access)
        if self._keyed[0] != key:
            self._keyed = (key, self._build(key))
        template = self._template_of(request)
        messages = [encode_message(message, self._name) for message in request.messages]
        timeout_s = timeout_of(request)
        settings: dict[str, Any] = {
            "max_tokens": request.settings.max_tokens,
            "max_retries": 0,
            "timeout": httpx2.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S)),
            "extra_headers": dict(self._access.headers),
        }
        if request.settings.temperature is not None:
            settings["temperature"] = request.settings.temperature
        return self._keyed[1], template, messages, cast("TheirSettings", settings)

    def _build(self, key: str) -> Model:
        """Nothing is opened yet."""
        http = httpx2.AsyncClient(transport=self._transport, trust_env=False)
        place = {"base_url": self._access.base_url} if self._access.base_url else {}

        def provider(name: str) -> Any:  # noqa: ANN401
            return infer_provider_class(name)(api_key=key, http_client=http, **place)  # pyright: ignore[reportCallIssue]

        written = f"{self._name.provider.name}:{self._name.model}"
        try:
            return infer_model(written, provider)
        except (TheirUserError, TypeError, ValueError) as error:
            raise SettingsError(f"pydantic-ai cannot build the model {written}: {error}") from None

    def _failed(self, error: Exception) -> VegaError:
        return decode_error(error, self._name, {**self._access.headers, "key": self._keyed[0]})

    def _template_of(self, request: ModelRequest) -> RequestTemplate:
        """Agents are few and ask often, so a short list is quicker than any digest."""
        shared = (request.system, request.tools, request.output)
        for known, template in self._templates:
            if known == shared:
                return template
        template = request_template(self._keyed[1], self._name.provider, request)
        self._templates = [(shared, template), *self._templates[: _MAX_TEMPLATES - 1]]
        return template
