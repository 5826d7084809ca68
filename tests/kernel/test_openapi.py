"""The OpenAPI document against the door: every operation is tried by a tool that shares no code."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from tests.kernel.web import served
from vegakit.concurrency import SteadyClock
from vegakit.kernel import Kernel
from vegakit.server import TokenRole, Tokens
from vegakit.store import open_tenants

EXAMPLES = max(3, int(os.environ.get("VEGA_HISTORIES", "100")) // 25)
CHECKS = "--phases examples,coverage,fuzzing --exclude-checks positive_data_acceptance".split()
"""All but one: by JSON Schema 1.0 is a whole number, and here it is not."""
WAITS = ("subscribe", "query", "take_command", "take_request", "dispatch")
"""Wait on purpose, longer than the tool does."""


async def test_the_door_does_what_its_document_says(tmp_path: Path) -> None:
    """No request fails the server, and none has a reply that the document does not describe."""
    kernel = Kernel(open_tenants(":memory:"), SteadyClock())
    token = await Tokens(kernel.store, kernel.clock).create("acme", "ann", TokenRole.OPERATOR)
    async with served(kernel) as port:
        words = [f"http://127.0.0.1:{port}/openapi.json", "-H", f"Authorization: Bearer {token}"]
        ran = await asyncio.to_thread(
            subprocess.run,
            [
                *(Path(sys.executable).with_name("schemathesis"), "run", *words, *CHECKS),
                *("--max-examples", str(EXAMPLES), "--generation-database", "none"),
                *(word for name in WAITS for word in ("--exclude-operation-id", name)),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, ran.stdout[-5_000:]
