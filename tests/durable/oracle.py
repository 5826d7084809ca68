"""`python -m tests.durable.oracle LOG`: a provider in its own process, which outlives the workers.

Each question has its own answer and its own bill, so that no answer can pass for another.
"""

import asyncio
import re
import sys
from pathlib import Path

from vegakit.conversation import Usage
from vegakit.testing import Provider, ProviderReply, ProviderRequest

DELAY_MS = 80


def answer_to(number: int) -> str:
    return f"the answer to {number} is {number * number}"


def usage_of(number: int) -> Usage:
    return Usage(20 + number, 10 + number)


def question(number: int) -> str:
    return f"question {number}?"


def number_in(text: str) -> int:
    found = re.search(r"question (\d+)\?", text)
    assert found, text
    return int(found[1])


def choose(request: ProviderRequest) -> ProviderReply:
    number = number_in(request.text)
    return ProviderReply(answer_to(number), usage=usage_of(number), delay_ms=DELAY_MS)


async def main(log: Path) -> None:
    async with Provider(choose, log=log) as provider:
        sys.stdout.write(f"{provider.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
