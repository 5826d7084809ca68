from collections.abc import Generator

import pytest

from tests.store.postgres import own_schema


@pytest.fixture
def schema() -> Generator[str]:
    with own_schema() as name:
        yield name
