"""The wheel is built and installed once for all tests of it, in all workers."""

from pathlib import Path

import pytest
from campaigns.contract.stage import commands_in, install_wheel

from tests.sharing import made_once


@pytest.fixture(scope="session")
def wheel() -> Path:
    return commands_in(made_once("wheel", install_wheel))
