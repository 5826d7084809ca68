"""A process that remembers turns: `python -m tests.store.rememberer memory.db name turns`.

Each turn is three messages. It says that it is ready and waits for a line on its input, so that
several begin together; it appends every turn twice under one key, and one turn under a key that
all share.
"""

import asyncio
import sys
from contextlib import aclosing

from vegakit.conversation import Text, UserMessage
from vegakit.store import SqliteMemory

OWNER = "shared"


async def remember(path: str, name: str, turns: int) -> None:
    async with aclosing(SqliteMemory(path)) as memory:
        for number in range(turns):
            said = [UserMessage((Text(f"{name} {number} {place}"),)) for place in range(3)]
            assert await memory.append(OWNER, said, key=f"{name}/{number}")
            assert not await memory.append(OWNER, said, key=f"{name}/{number}")
        print(await memory.append(OWNER, [UserMessage((Text("once"),))], key="once"))


if __name__ == "__main__":
    print("ready", flush=True)
    sys.stdin.readline()
    asyncio.run(remember(sys.argv[1], sys.argv[2], int(sys.argv[3])))
