"""One model of one provider: its listed price, its guarded HTTP client, and the port that calls it
once and reports the result.

The SDK's own retries are off and its key is a placeholder: a hidden retry would be a request
nobody reserved money for.
"""

import asyncio
import inspect
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from decimal import ROUND_CEILING, Decimal
from functools import cache
from typing import Any, NamedTuple, TypeAlias, cast

import httpx2
from genai_prices import Usage, calc_price
from genai_prices.types import TieredPrices
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings as TheirSettings

from vegakit.conversation import ModelChunk, ModelReply, ModelRequest, OutputSpec, ToolSpec
from vegakit.errors import ErrorClass, Phase, SettingsError, VegaError, WorldError
from vegakit.money import NANOS, Money
from vegakit.prices import PriceRow, PriceTier
from vegakit.providers.access import (
    ModelName,
    ProviderAccess,
    ServerLimits,
    parse_limits,
    use_admission,
)
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
from vegakit.providers.provider import Wire
from vegakit.providers.token_bounds import bound_of_messages

# What a model costs, from the list that comes with genai-prices; it is never fetched.
#
# The standard tier is what calls ask for (see `model`), so its prices hold. A cache that the list
# does not price costs what input costs. A model that is not on the list, or lacks a price for
# input or output, has no price.


@cache
def listed_price(provider: str, model: str) -> PriceRow | None:
    """Return the price of a model by the list; None if the list does not know it."""
    try:
        prices = calc_price(Usage(), model, provider_id=provider).model_price
    except LookupError:
        return None
    if prices.input_mtok is None or prices.output_mtok is None:
        return None
    listed = (
        prices.input_mtok,
        prices.output_mtok,
        prices.cache_read_mtok or prices.input_mtok,
        prices.cache_write_mtok or prices.input_mtok,
    )
    sizes = {t.start for price in listed if isinstance(price, TieredPrices) for t in price.tiers}
    tiers = (
        PriceTier(*(_at(price, size) for price in listed), above_input_tokens=size)
        for size in sorted(sizes | {0})
    )
    return PriceRow(f"{provider}:{model}", tuple(tiers))


def _at(price: Decimal | TieredPrices, size: int) -> Money:
    """Nano-dollars per million tokens of a call above this size, rounded up."""
    if isinstance(price, TieredPrices):
        reached = [tier.price for tier in price.tiers if tier.start <= size]
        price = reached[-1] if reached else price.base
    return Money(int((price * NANOS).to_integral_value(ROUND_CEILING)))


# The provider's own SDK on a guarded HTTP client, under pydantic-ai's model class.
#
# Its retries are off and its key is a placeholder: the real one is put on each request by its
# call. Nothing is read from the environment but the certificates that the machine trusts.


_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100)


class ProviderClient(NamedTuple):
    """A model of pydantic-ai, and the transport under it."""

    model: Model
    transport: "GuardedTransport"


def connect(name: ModelName, access: ProviderAccess) -> ProviderClient:
    """Return the model of the provider's library on a client of our own; nothing is opened yet."""
    base_url = access.base_url or name.wire.base_url
    transport = GuardedTransport(access.proxy, secure=base_url.startswith("https:"))
    http = httpx2.AsyncClient(transport=transport, trust_env=False)
    return ProviderClient(name.wire.connect(name.model, base_url, http), transport)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Its connections belong to one event loop; in another loop it begins anew."""

    def __init__(self, proxy: str | None, *, secure: bool) -> None:
        self.on_limits: Callable[[ServerLimits], None] | None = None
        self._proxy = proxy
        self._secure = secure
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


# One model of one provider: asks once, and says what came of it.


_Shared: TypeAlias = tuple[str, tuple[ToolSpec, ...], OutputSpec | None]

_MAX_TOKENS = 4_096
_MAX_TOKENS_WITH_REASONING = 16_000
_TIMEOUT_S = 600.0
_CONNECT_TIMEOUT_S = 30.0
"""Long enough for a loop that opens a thousand connections at once."""
_MAX_TEMPLATES = 64
_STANDARD_TIER = {"service_tier": "default"}
"""Else an account's own setting may choose a more expensive tier than is reserved for."""


class ProviderModel:
    """Implements `ports.Model`. `timeout_ms` bounds a whole answer, in a stream each wait for more;
    without one it is ten minutes."""

    def __init__(self, name: ModelName, access: ProviderAccess, client: ProviderClient) -> None:
        self._name = name
        self._access = access
        self._client = client
        self._settings = fixed_settings(name.wire, access)
        self._templates: list[tuple[_Shared, RequestTemplate]] = []
        self.price: PriceRow | None = access.price or listed_price(name.provider.name, name.model)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def name(self) -> str:
        """Return the name with the wire format before it."""
        return str(self._name)

    @property
    def context_tokens(self) -> int | None:
        """Return the size of the model's window; None if nobody knows it."""
        return self._client.model.context_window

    @property
    def default_max_tokens(self) -> int:
        """Return how long an answer may be if nobody says: longer for a model that reasons, whose
        thoughts are output too."""
        profile = self._client.model.profile
        reasons = profile.get("thinking_always_enabled") or profile.get(
            "thinking_enabled_by_default"
        )
        return _MAX_TOKENS_WITH_REASONING if reasons else _MAX_TOKENS

    def bound_input(self, request: ModelRequest) -> int:
        """Return no fewer tokens than the provider will bill as input."""
        messages_bound = bound_of_messages(self._name.provider, self._name.model, request)
        return self._template_of(request).bound + messages_bound

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Ask once, and return the reply."""
        template, messages, settings = await self._prepare(request)
        timeout_s = _timeout_s(request)
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._client.model.request(messages, settings, template.parameters)
        except TimeoutError:
            raise timed_out(self._name, timeout_s) from None
        except FAILURES as error:
            raise self._failed(error, settings) from None
        return decode_reply(response, self._name, template.output_tool)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        """Ask once, and yield the answer piece by piece, the whole reply last."""
        template, messages, settings = await self._prepare(request)
        converter = ChunkConverter(template.output_tool)
        try:
            async with self._client.model.request_stream(
                messages, settings, template.parameters
            ) as answer:
                events = cast("AsyncGenerator[Any]", aiter(answer))
                async with aclosing(events):
                    async for event in events:
                        for chunk in converter.of(event):
                            yield chunk
                response = answer.get()
        except FAILURES as error:
            raise self._failed(error, settings) from None
        yield decode_reply(response, self._name, template.output_tool)

    def subscribe_limits(self, listener: Callable[[ServerLimits], None]) -> None:
        """Tell the listener what the provider says of its limits, as soon as an answer begins, good
        or bad."""
        self._client.transport.on_limits = listener

    async def aclose(self) -> None:
        """Let go of its connections; it may be asked again."""
        await self._client.transport.aclose()

    async def _prepare(
        self, request: ModelRequest
    ) -> tuple[RequestTemplate, list[ModelMessage], TheirSettings]:
        template = self._template_of(request)
        messages = [encode_message(message, self._name) for message in request.messages]
        timeout_s = _timeout_s(request)
        settings = {
            **self._settings,
            "max_tokens": request.settings.max_tokens,
            "timeout": httpx2.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S)),
            "extra_headers": {
                **self._access.headers,
                self._name.wire.key_header: self._name.wire.key_form.format(await self._read_key()),
            },
        }
        if request.settings.temperature is not None:
            settings["temperature"] = request.settings.temperature
        return template, messages, cast("TheirSettings", settings)

    def _failed(self, error: Exception, settings: TheirSettings) -> VegaError:
        sent = cast("dict[str, Any]", settings)["extra_headers"]
        return decode_error(error, self._name, sent)

    async def _read_key(self) -> str:
        try:
            key = self._access.key()
            if inspect.isawaitable(key):
                key = await key
        except SettingsError as error:
            raise _no_key(str(error)) from error
        if not key:
            variable = self._name.provider.key_variable
            raise _no_key(f"{self.name} needs a key; set {variable} in your shell")
        return key

    def _template_of(self, request: ModelRequest) -> RequestTemplate:
        """Agents are few and ask often, so a short list is quicker than any digest."""
        shared = (request.system, request.tools, request.output)
        for known, template in self._templates:
            if known == shared:
                return template
        template = request_template(self._client.model, self._name.provider, request)
        self._templates = [(shared, template), *self._templates[: _MAX_TEMPLATES - 1]]
        return template


def fixed_settings(wire: Wire, access: ProviderAccess) -> dict[str, Any]:
    """Return what every request of a wire is sent with. Other servers that speak a provider's
    format need not know all of its words."""
    own_address = access.base_url is None
    return {
        **(_STANDARD_TIER if own_address else {}),
        **wire.settings,
    }


def _timeout_s(request: ModelRequest) -> float:
    timeout_ms = request.settings.timeout_ms
    return _TIMEOUT_S if timeout_ms is None else timeout_ms / 1_000


def _no_key(message: str) -> WorldError:
    return WorldError(message, ErrorClass.AUTH, phase=Phase.NOTHING_SENT)
