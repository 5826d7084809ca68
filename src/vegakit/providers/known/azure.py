"""Azure OpenAI: Responses and Chat Completions, by the name of a deployment.

A deployment that is not named like its model has no listed price: give it one in `[prices]`.
"""

from vegakit.providers.known.openai import (
    NOT_STORED,
    load_chat,
    load_responses,
    openai_image_tokens,
)
from vegakit.providers.provider import (
    LimitHeaders,
    ProviderRecord,
    ProviderWire,
    after_duration,
    by_header,
)

_URL = "{AZURE_OPENAI_ENDPOINT}/openai/v1"
_KEY = by_header("api-key")
_TWICE = {"/openai/v1/openai/v1": "/openai/v1"}
"""Some give the endpoint with the path."""

PROVIDER = ProviderRecord(
    name="azure",
    wires=(
        ProviderWire("azure", _URL, load_responses, _KEY, NOT_STORED, spellings=_TWICE),
        ProviderWire("azure-chat", _URL, load_chat, _KEY, spellings=_TWICE),
    ),
    image_tokens=openai_image_tokens,
    limit_headers=LimitHeaders("x-ratelimit-remaining-{}", "x-ratelimit-reset-{}", after_duration),
    key_variable="AZURE_OPENAI_API_KEY",
)
