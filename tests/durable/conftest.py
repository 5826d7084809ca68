"""A real Temporal server for the tests of this folder, thrown away after them."""

from collections.abc import Iterator

import pytest
from benchmarks.temporal_server import temporal_server


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address."""
    with temporal_server(tmp_path_factory.mktemp("temporal")) as server:
        yield server.address
