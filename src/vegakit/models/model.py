"""One model of one provider: asks once, and says what came of it."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeAlias, cast

import httpx2
from pydantic_ai.messages import ModelMessage
from pydantic_ai.settings import ModelSettings as TheirSettings

from vegakit.conversation import ModelChunk, ModelReply, ModelRequest, OutputSpec, ToolSpec
from vegakit.errors import ErrorClass, Phase, SettingsError, VegaError, WorldError
from vegakit.models.access import ProviderAccess
from vegakit.models.bounds import bound_of_messages
from vegakit.models.chunks import Chunks
from vegakit.models.clients import Client
from vegakit.models.failures import FAILURES, our_error, timed_out
from vegakit.models.incoming import our_reply
from vegakit.models.naming import Wire
from vegakit.models.outgoing import Standing, standing_of, their_message
from vegakit.models.price_list import listed_price
from vegakit.models.server_limits import ServerLimits
from vegakit.prices import PriceRow

__all__ = ["ProviderModel", "fixed_settings"]

_Shared: TypeAlias = tuple[str, tuple[ToolSpec, ...], OutputSpec | None]

_MAX_TOKENS = 4_096
_MAX_TOKENS_WITH_REASONING = 16_000
_TIMEOUT_S = 600.0
_CONNECT_TIMEOUT_S = 30.0
"""Long enough for a loop that opens a thousand connections at once."""
_MAX_STANDING = 64
_STANDARD_TIER = {"service_tier": "default"}
"""Else an account's own setting may choose a dearer tier than the one that is reserved for."""
_NOT_STORED = {"openai_store": False}
"""Answers are kept by us alone, so that nothing that is billed later lies on a server."""


class ProviderModel:
    """Implements `ports.Model`. `timeout_ms` bounds a whole answer, in a stream each wait for more;
    without one it is ten minutes."""

    def __init__(self, wire: Wire, model: str, access: ProviderAccess, client: Client) -> None:
        self._wire = wire
        self._model = model
        self._access = access
        self._client = client
        self._settings = fixed_settings(wire, access)
        self._standing: list[tuple[_Shared, Standing]] = []
        self.price: PriceRow | None = access.price or listed_price(wire.provider, model)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def name(self) -> str:
        return f"{self._wire.name}:{self._model}"

    @property
    def context_tokens(self) -> int | None:
        return self._client.model.context_window

    @property
    def default_max_tokens(self) -> int:
        profile = self._client.model.profile
        reasons = profile.get("thinking_always_enabled") or profile.get(
            "thinking_enabled_by_default"
        )
        return _MAX_TOKENS_WITH_REASONING if reasons else _MAX_TOKENS

    def bound_input(self, request: ModelRequest) -> int:
        spoken = bound_of_messages(self._wire.provider, self._model, request)
        return self._standing_of(request).bound + spoken

    async def ask(self, request: ModelRequest) -> ModelReply:
        standing, messages, settings = await self._prepare(request)
        timeout_s = _timeout_s(request)
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._client.model.request(messages, settings, standing.parameters)
        except TimeoutError:
            raise timed_out(self._wire, self._model, timeout_s) from None
        except FAILURES as error:
            raise self._failed(error, settings) from None
        return our_reply(response, self._wire, standing.output_tool)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        standing, messages, settings = await self._prepare(request)
        chunks = Chunks(standing.output_tool)
        try:
            async with self._client.model.request_stream(
                messages, settings, standing.parameters
            ) as answer:
                events = cast("AsyncGenerator[Any]", aiter(answer))
                async with aclosing(events):
                    async for event in events:
                        for chunk in chunks.of(event):
                            yield chunk
                response = answer.get()
        except FAILURES as error:
            raise self._failed(error, settings) from None
        yield our_reply(response, self._wire, standing.output_tool)

    def tell_limits(self, listener: Callable[[ServerLimits], None]) -> None:
        """What the provider says of its limits, as soon as an answer begins, good or bad."""
        self._client.transport.on_limits = listener

    async def aclose(self) -> None:
        """Lets go of its connections; it may be asked again."""
        await self._client.transport.aclose()

    async def _prepare(
        self, request: ModelRequest
    ) -> tuple[Standing, list[ModelMessage], TheirSettings]:
        standing = self._standing_of(request)
        messages = [their_message(message, self._wire) for message in request.messages]
        timeout_s = _timeout_s(request)
        settings = {
            **self._settings,
            "max_tokens": request.settings.max_tokens,
            "timeout": httpx2.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S)),
            "extra_headers": {
                **self._access.headers,
                self._wire.key_header: self._wire.key_form.format(await self._read_key()),
            },
        }
        if request.settings.temperature is not None:
            settings["temperature"] = request.settings.temperature
        return standing, messages, cast("TheirSettings", settings)

    def _failed(self, error: Exception, settings: TheirSettings) -> VegaError:
        sent = cast("dict[str, Any]", settings)["extra_headers"]
        return our_error(error, self._wire, self._model, sent)

    async def _read_key(self) -> str:
        try:
            key = self._access.key()
            if inspect.isawaitable(key):
                key = await key
        except SettingsError as error:
            raise _no_key(str(error)) from error
        if not key:
            variable = self._wire.key_variable
            raise _no_key(f"{self.name} needs a key; set {variable} in your shell")
        return key

    def _standing_of(self, request: ModelRequest) -> Standing:
        """Agents are few and ask often, so a short list is quicker than any digest."""
        shared = (request.system, request.tools, request.output)
        for known, standing in self._standing:
            if known == shared:
                return standing
        standing = standing_of(self._client.model, self._wire.provider, request)
        self._standing = [(shared, standing), *self._standing[: _MAX_STANDING - 1]]
        return standing


def fixed_settings(wire: Wire, access: ProviderAccess) -> dict[str, Any]:
    """Other servers that speak a provider's format need not know all of its words."""
    own_address = access.base_url is None
    return {
        **(_STANDARD_TIER if own_address else {}),
        **(_NOT_STORED if wire.name == "openai" else {}),
    }


def _timeout_s(request: ModelRequest) -> float:
    timeout_ms = request.settings.timeout_ms
    return _TIMEOUT_S if timeout_ms is None else timeout_ms / 1_000


def _no_key(message: str) -> WorldError:
    return WorldError(message, ErrorClass.AUTH, phase=Phase.NOTHING_SENT)
