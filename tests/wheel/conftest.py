"""The wheel is built and installed once for all tests of it."""

from collections.abc import Generator
from pathlib import Path

import pytest
from campaigns.contract.stage import installed_wheel


@pytest.fixture(scope="session")
def wheel() -> Generator[Path]:
    with installed_wheel() as bin_folder:
        yield bin_folder
