from collections.abc import Generator
from pathlib import Path

import pytest

from tests.store.postgres import own_schema, url_of


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    """A journal that nobody has written to yet, of each backend."""
    if request.param == "sqlite":
        yield str(tmp_path / "run.db")
        return
    with own_schema() as schema:
        yield url_of(schema)
