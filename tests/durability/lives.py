"""Lives of a program, each in a process of its own, which may kill itself as `kill -9` does."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from vegakit.conversation import ModelReply, ModelRequest
from vegakit.providers import ScriptedModel

_SPAWNS = multiprocessing.get_context("spawn")


def live(life: Callable[..., Coroutine[Any, Any, object]], *args: object) -> int:
    """Run it to its end in a process of its own and return how that process ended."""
    process = _SPAWNS.Process(target=_run, args=(life, *args))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _run(life: Callable[..., Coroutine[Any, Any, object]], *args: object) -> None:
    asyncio.run(life(*args))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class LoggedModel(ScriptedModel):
    """Answers with the question, and writes each question to a file that outlives its process."""

    def __init__(self, log: Path) -> None:
        super().__init__(lambda request: f"<{_asked(request)}>")
        self._log = log

    async def ask(self, request: ModelRequest) -> ModelReply:
        with self._log.open("a") as file:
            file.write(f"{_asked(request)}\n")
        return await super().ask(request)


def asked(log: Path) -> list[str]:
    return sorted(log.read_text().split())


def _asked(request: ModelRequest) -> str:
    part: Any = request.messages[-1]
    return part.parts[0].text
