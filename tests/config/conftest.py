from pathlib import Path

import pytest

from tests.config.house import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)
