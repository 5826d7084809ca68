import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

REPOSITORY = Path(__file__).parents[3]
Watch: TypeAlias = Callable[..., "subprocess.Popen[str]"]


@contextmanager
def watched(directory: Path, name: str) -> Generator["subprocess.Popen[str]"]:
    """Ready to be looked into; ended when its input is closed."""
    command = [sys.executable, "-m", "tests.runtime.viewing.watched", str(directory), name]
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            if process.stdin is not None and not process.stdin.closed:
                process.stdin.close()
            process.wait(20)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    """Starts runtimes in other OS processes, whose sockets are in the test's directory."""
    with ExitStack() as stack:
        yield lambda name="night": stack.enter_context(watched(tmp_path, name))
