"""Journals that earlier versions wrote resume: one file of each format is kept.

`python -m tests.journal.test_formats` writes that of the present format, once, before a release
that changes it.
"""

import asyncio
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from tests.journal.test_resume import echo, three_asks
from vegakit.errors import InvalidRecordError
from vegakit.providers import ScriptedModel
from vegakit.store import list_runs
from vegakit.store.seals import RowSeals, user_seal

STORED = Path(__file__).parents[1] / "data" / "journal"
FIRST, FORMAT = 4, 4
"""None before it was released. It is sealed with the secret of the tests,
see `tests/conftest.py`."""


@pytest.mark.parametrize("number", range(FIRST, FORMAT + 1))
def test_a_stored_journal_resumes(number: int, tmp_path: Path) -> None:
    """Two answers come from the file, and the call that was cut off there is made."""
    path, model = tmp_path / "run.db", ScriptedModel(echo)
    shutil.copy(STORED / f"format-{number}.db", path)
    [before] = list_runs(path)
    assert (before.recorded, before.cut_off, before.ended_ms) == (2, 1, None)
    said = asyncio.run(three_asks(path, model))
    assert said == [f"echo question {number}" for number in range(3)]
    assert len(model.requests) == 1
    [after] = list_runs(path)
    run = structs.replace(after.run, takeovers=None)
    assert (after.recorded, after.cut_off, run) == (3, 0, before.run)


def test_a_journal_of_a_later_format_is_refused(tmp_path: Path) -> None:
    """Never guessed at."""
    path = tmp_path / "run.db"
    shutil.copy(STORED / f"format-{FORMAT}.db", path)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE format_versions SET format_version = format_version + 1")
    with pytest.raises(InvalidRecordError, match="update vegakit"):
        asyncio.run(three_asks(path, ScriptedModel(echo)))


def write() -> Path:
    """A run whose third call was cut off; nothing in it says who wrote it where."""
    stored = STORED / f"format-{FORMAT}.db"
    stored.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.db"
        asyncio.run(three_asks(path, ScriptedModel(echo)))
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            seals = RowSeals(str(path), user_seal)
            file.create_function("sealed", -1, lambda table, *row: seals.of(table, row))
            file.execute("UPDATE effects SET outcome = NULL WHERE outcome LIKE '%question 2%'")
            told = "json_set(run, '$.command', json('[\"python\"]'), '$.folder', '')"
            file.execute(f"UPDATE runs SET ended_ms = NULL, run = {told}")
            for table in ("runs", "effects"):
                columns = ", ".join(
                    row[1]
                    for row in file.execute(f"PRAGMA table_info({table})")
                    if row[1] != "seal"
                )
                file.execute(f"UPDATE {table} SET seal = sealed('{table}', {columns})")
            # Of money nothing is kept: the claim of what was cut off would tell that it was sent.
            for table in ("scopes", "counters", "claims", "leases"):
                file.execute(f"DELETE FROM {table}")
            file.execute("VACUUM")
        shutil.copy(path, stored)
    return stored


if __name__ == "__main__":
    import tests.conftest  # the secret of the tests

    assert tests.conftest
    print(write())
