# pyright: basic, reportMissingImports=false
"""The same pages in Pydantic AI, five at a time, with one counter and its limit of $1 in money."""

import asyncio
import sys
from decimal import Decimal

from pydantic_ai import Agent
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RunUsage, UsageLimits

__all__ = ["live"]


async def live(model_name: str, max_tokens: int, pages: int, url: str) -> None:
    model = OpenAIChatModel(
        model_name, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="any")
    )
    reader = Agent(model, model_settings={"max_tokens": max_tokens})
    usage = RunUsage()
    limits = UsageLimits(request_limit=None, cost_limit=Decimal(1))
    waiting = iter(range(pages))

    async def work_off() -> None:
        for page in waiting:
            await reader.run(f"Read page {page}.", usage=usage, usage_limits=limits)

    # No worker cancels the others: what they have asked is billed in any case.
    ends = await asyncio.gather(*(work_off() for _ in range(5)), return_exceptions=True)
    print(next((end for end in ends if isinstance(end, UsageLimitExceeded)), "no limit was met"))


if __name__ == "__main__":
    asyncio.run(live(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
