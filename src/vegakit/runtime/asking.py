"""One question without a loop of one's own: `run(agent, "…")`, also in a notebook."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from vegakit.runtime.agents import Agent
from vegakit.runtime.replies import Reply
from vegakit.runtime.runtime import Runtime

__all__ = ["run"]

T = TypeVar("T")


def run(agent: Agent[T], prompt: str, **options: Any) -> Reply[T]:  # noqa: ANN401
    """Takes what `Runtime.ask` takes. Under a running loop it works in a thread, and waits."""

    async def asked() -> Reply[T]:
        async with Runtime.from_config() as rt:
            return await rt.ask(agent, prompt, **options)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(asked())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, asked()).result()
