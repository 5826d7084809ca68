"""A runtime that starts eight daemonising children, says so, and waits to be killed.

python -m tests.runtime.children.doomed MARK [LAUNCHER]
"""

import asyncio
import sys
from pathlib import Path

from tests.runtime.children.processes import start_up
from vegakit.child_process import Children, children as launching
from vegakit.concurrency import SteadyClock


async def main(mark: str) -> None:
    children = Children(SteadyClock())
    await asyncio.gather(*(start_up(children, mark, "daemon") for _ in range(8)))
    print("up", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        launching._PLACE = Path(sys.argv[2])
    asyncio.run(main(sys.argv[1]))
