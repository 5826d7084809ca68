"""A mark that only this test's processes carry; whatever still carries it afterwards is killed."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import pytest

from tests.runtime.children.processes import marked


@pytest.fixture
def mark() -> Iterator[str]:
    mark = f"mark-{uuid4().hex}"
    yield mark
    for pid in marked(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
