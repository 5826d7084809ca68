"""`python -m vegakit.testing.provider --port 0 --log FILE`: prints its url, serves until ended."""

import argparse
import asyncio
import signal
import sys
from contextlib import suppress
from pathlib import Path

from vegakit.testing.provider.server import Provider


def main(arguments: list[str] | None = None) -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m vegakit.testing.provider",
        description="A provider on 127.0.0.1; words in the last user message choose its answer.",
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--log", type=Path, help="append each request as JSON lines to this file")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(options.port, options.log))


async def _serve(port: int, log: Path | None) -> None:
    async with Provider(port=port, log=log) as provider:
        sys.stdout.write(f"{provider.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
