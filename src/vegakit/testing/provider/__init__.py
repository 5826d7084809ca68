"""A provider on 127.0.0.1 that answers, fails, drops and stalls as it is told (kit, host).

It speaks the wire formats of Anthropic Messages, OpenAI Chat Completions and OpenAI Responses, so
the official clients run against it over real sockets, and it logs every request it gets.

    async with Provider([Failure(529, retry_after_s=1), "Paris"]) as provider:
        client = AsyncAnthropic(base_url=provider.url, api_key="any")
        ...
        assert [request.attempt for request in provider.requests] == [1, 2]
"""

from vegakit.testing.provider.script import (
    Api,
    Break,
    DropConnection,
    Failure,
    Hang,
    ProviderAnswer,
    ProviderReply,
    ProviderRequest,
    ProviderToolCall,
    RequestStatus,
    Script,
)
from vegakit.testing.provider.server import Provider

__all__ = [
    "Api",
    "Break",
    "DropConnection",
    "Failure",
    "Hang",
    "Provider",
    "ProviderAnswer",
    "ProviderReply",
    "ProviderRequest",
    "ProviderToolCall",
    "RequestStatus",
    "Script",
]
