"""Every memory passes the one suite; one on a file is also shared, indexed and kept."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from tests.store.conformance import MEMORY_CHECKS, MemoryCheck
from tests.store.rememberer import OWNER
from vegakit.conversation import Message, Text, UserMessage
from vegakit.errors import StoreError
from vegakit.ports import Memory
from vegakit.store import SqliteMemory, SqliteStore
from vegakit.store.sqlite import stores as memories_sqlite

REPOSITORY = Path(__file__).parents[2]
PROCESSES, TURNS = 3, 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "memory.db"


@pytest.fixture
def without_fts5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories_sqlite, "has_fts5", lambda _: False)


def run(path: Path, *uses: Callable[[SqliteMemory], Awaitable[object]]) -> None:
    """Each use has a memory of its own on the same file, one after the other."""

    async def each() -> None:
        for use in uses:
            async with aclosing(SqliteMemory(path)) as memory:
                await use(memory)

    asyncio.run(each())


def say(*texts: str) -> list[UserMessage]:
    return [UserMessage((Text(text),)) for text in texts]


def name_of(check: object) -> str:
    return str(getattr(check, "__name__", "")).strip("_")


async def checked(check: MemoryCheck, memory: Memory) -> None:
    async with aclosing(memory):
        await check(memory)


@pytest.mark.parametrize("check", MEMORY_CHECKS, ids=name_of)
def test_a_memory(check: MemoryCheck, path: Path) -> None:
    """What is checked stands in the check's name."""
    asyncio.run(checked(check, SqliteMemory(path)))


@pytest.mark.usefixtures("without_fts5")
@pytest.mark.parametrize("check", MEMORY_CHECKS, ids=name_of)
def test_a_memory_without_fts5(check: MemoryCheck, path: Path) -> None:
    """It finds the same, line by line."""
    asyncio.run(checked(check, SqliteMemory(path)))


def test_the_file_remembers(path: Path) -> None:
    """What one life said, the next one loads, finds and does not write again."""

    async def next_life(memory: SqliteMemory) -> None:
        assert list(await memory.load("a")) == say("the door", "is red")
        assert list(await memory.search("a", "door")) == say("the door")
        assert not await memory.append("a", say("the door", "is red"), key="turn 1")

    run(path, lambda memory: memory.append("a", say("the door", "is red"), key="turn 1"), next_life)


def test_processes_append_at_once(path: Path) -> None:
    """No turn is lost, doubled, parted or out of order, and a shared key is written by one."""
    command = [sys.executable, "-m", "tests.store.rememberer", str(path)]
    processes = [
        subprocess.Popen(
            [*command, str(which), str(TURNS)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for which in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    wrote_it = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert sorted(wrote_it) == ["False"] * (PROCESSES - 1) + ["True"]

    async def look(memory: SqliteMemory) -> None:
        said = [text for text in texts(await memory.load(OWNER, 1_000)) if text != "once"]
        assert said == [f"{turn[:-1]}{place}" for turn in said[::3] for place in range(3)]
        for which in map(str, range(PROCESSES)):
            mine = [turn for turn in said[::3] if turn.startswith(f"{which} ")]
            assert mine == [f"{which} {number} 0" for number in range(TURNS)]
        assert len(await memory.search(OWNER, "2", 1_000)) >= TURNS

    run(path, look)


def texts(messages: Sequence[Message]) -> list[str]:
    parts = [
        part for message in messages if isinstance(message, UserMessage) for part in message.parts
    ]
    return [part.text for part in parts if isinstance(part, Text)]


def test_a_turn_that_fails_halfway_is_not_there(path: Path) -> None:
    """Neither its lines, nor its key, nor its words."""

    async def use(memory: SqliteMemory) -> None:
        await memory.append("a", say("good"))
        with closing(sqlite3.connect(path)) as file, file:
            file.execute(
                "CREATE TRIGGER full BEFORE INSERT ON lines WHEN new.said LIKE '%third%'"
                " BEGIN SELECT raise(ABORT, 'no room'); END"
            )
        with pytest.raises(StoreError, match="no room"):
            await memory.append("a", say("first", "second", "third"), key="turn 1")
        with pytest.raises(StoreError, match="written by somebody else"):
            await memory.load("a")  # it is opened anew after the error, and we make no triggers
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("DROP TRIGGER full")
        assert list(await memory.load("a")) == say("good")
        assert list(await memory.search("a", "first")) == []
        assert await memory.append("a", say("first"), key="turn 1")

    run(path, use)


def test_a_file_made_without_fts5_stays_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has FTS5 finds there what others wrote without it."""
    with monkeypatch.context() as lacking:
        lacking.setattr(memories_sqlite, "has_fts5", lambda _: False)
        run(path, lambda memory: memory.append("a", say("the door")))
    with closing(sqlite3.connect(path)) as file:
        assert (
            file.execute("SELECT 1 FROM sqlite_master WHERE name = 'line_index'").fetchall() == []
        )

    async def use(memory: SqliteMemory) -> None:
        await memory.append("a", say("another door"))
        assert list(await memory.search("a", "door")) == say("another door", "the door")

    run(path, use)


def test_a_file_with_an_index_is_refused_without_fts5(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines written past the index would not be found."""
    run(path, lambda memory: memory.append("a", say("the door")))
    monkeypatch.setattr(memories_sqlite, "has_fts5", lambda _: False)

    async def use(memory: SqliteMemory) -> None:
        with pytest.raises(StoreError, match="lacks; use a Python whose SQLite has it"):
            await memory.load("a")

    run(path, use)


def test_fts5_is_tried_not_guessed() -> None:
    """A SQLite that will not make the index has none."""
    with closing(sqlite3.connect(":memory:")) as connection:
        assert memories_sqlite.has_fts5(connection)
        assert memories_sqlite.has_fts5(connection)
        denied = {sqlite3.SQLITE_CREATE_VTABLE}
        connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_DENY if action in denied else sqlite3.SQLITE_OK
        )
        assert not memories_sqlite.has_fts5(connection)


def test_the_index_and_the_lines_agree(path: Path) -> None:
    """After owners were forgotten too: FTS5 compares them word by word."""

    async def use(memory: SqliteMemory) -> None:
        for owner in ("a", "b", "a", "c"):
            await memory.append(owner, say("the door", "☀", "half-open straße"))
        await memory.forget("a")
        await memory.forget("c")
        await memory.append("c", say("the window"))

    run(path, use)
    with closing(sqlite3.connect(path)) as file:
        file.execute("INSERT INTO line_index (line_index, rank) VALUES ('integrity-check', 1)")
        assert file.execute("SELECT count(*) FROM line_index('door')").fetchone() == (1,)


def test_lines_are_reached_by_index(path: Path) -> None:
    """Neither a search nor a load reads through the lines of other owners."""

    async def use(memory: SqliteMemory) -> None:
        await memory.append("a", say("the door"))

    run(path, use)
    with closing(sqlite3.connect(path)) as file:
        for query, values, expected in (
            (memories_sqlite._LATEST, ("a", 9), "SEARCH lines USING INDEX lines_of (owner=?)"),
            (memories_sqlite._FIND, ("door", 9), "SCAN line_index VIRTUAL TABLE INDEX"),
            (memories_sqlite._FIND, ("door", 9), "SEARCH lines USING INTEGER PRIMARY KEY"),
        ):
            plan = str(file.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall())
            assert expected in plan
            assert "TEMP B-TREE" not in plan


def test_an_owner_cannot_be_forged(path: Path) -> None:
    """What names an owner in the index is no word, neither of a text nor of a query."""

    async def use(memory: SqliteMemory) -> None:
        mark = memories_sqlite._mark("a")
        await memory.append("b", say(f"{mark} door"))
        await memory.append("a", say("a door"))
        assert list(await memory.search("a", "door")) == say("a door")
        assert list(await memory.search("a", mark)) == []

    run(path, use)


def test_memory_and_documents_share_a_file(path: Path) -> None:
    """Each has its own format."""

    async def use(memory: SqliteMemory) -> None:
        await memory.append("a", say("the door"))
        async with aclosing(SqliteStore(path)) as store:
            assert await store.put("run", "a", b"1", expected=0)
        assert list(await memory.load("a")) == say("the door")

    run(path, use)
