"""Anthropic: Messages."""

from math import ceil
from typing import TYPE_CHECKING, Any, cast

from vegakit.providers.provider import (
    PLACEHOLDER_KEY,
    LimitHeaders,
    PixelSize,
    ProviderRecord,
    Wire,
    squares,
    until_time,
)

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

_MOST_IMAGE_TOKENS = 4_784


def _image_tokens(model: str, size: PixelSize) -> int:
    """Return width × height / 750, or squares of 28, whichever is more, for every model."""
    return min(_MOST_IMAGE_TOKENS, max(ceil(size[0] * size[1] / 750), squares(size, 28)))


def _connect(model: str, base_url: str, http: "httpx2.AsyncClient") -> "Model":
    from anthropic import AsyncAnthropic
    from anthropic.types.beta import BetaMessageDeltaUsage, BetaUsage
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    class LenientAnthropicModel(AnthropicModel):
        """Reads an answer that does not say what it used, at which the library stumbles: it has
        been paid for, so it is handed over. A usage of zero tells `incoming` that nobody knows."""

        def _process_response(self, response: Any, *rest: Any, **more: Any) -> Any:  # noqa: ANN401
            _fill_usage(response, BetaUsage)
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
                _fill_usage(event.message, BetaUsage)
            elif event.type == "message_delta":
                _fill_usage(event, BetaMessageDeltaUsage)
            return event

    sdk = AsyncAnthropic(
        api_key=PLACEHOLDER_KEY, base_url=base_url, http_client=http, max_retries=0
    )
    return LenientAnthropicModel(model, provider=AnthropicProvider(anthropic_client=sdk))


def _fill_usage(answer: Any, usage: Any) -> None:  # noqa: ANN401
    """The library does not check what it reads, so a field that must be there may be None."""
    if answer.usage is None:
        answer.usage = usage.model_construct(input_tokens=0, output_tokens=0)


PROVIDER = ProviderRecord(
    name="anthropic",
    wires=(Wire("anthropic", "https://api.anthropic.com", "x-api-key", _connect),),
    own_models=r"claude-",
    image_tokens=_image_tokens,
    limit_headers=LimitHeaders(
        "anthropic-ratelimit-{}-remaining", "anthropic-ratelimit-{}-reset", until_time
    ),
)
