"""What a ledger on a file does beyond the suite: sharing, order, closing, trouble with the file."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.patience import PATIENCE_S
from vegakit.errors import BugError, InvalidRecordError, StoreError
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import ClaimState, Reserved, ScopeRule
from vegakit.store import SqliteLedger, SqliteStore
from vegakit.store.ledger_rows import LedgerRows
from vegakit.store.sqlite import connection

ROOT, ME = ScopeId("root"), HolderId("me")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "ledger.db"


def run(path: Path, *uses: Callable[[SqliteLedger], Awaitable[object]]) -> None:
    """Each use has a ledger of its own on the same file, one after the other."""

    async def each() -> None:
        for use in uses:
            ledger = SqliteLedger(path)
            try:
                await use(ledger)
            finally:
                await ledger.aclose()

    asyncio.run(each())


async def fill(ledger: SqliteLedger, calls: int = 1, cap: int = 100) -> None:
    await ledger.open(ROOT, ScopeRule(Money(cap)), 0)
    await ledger.renew(ME, 1000)
    for number in range(calls):
        await reserve(ledger, f"call {number}")


async def reserve(ledger: SqliteLedger, name: str, amount: int = 1, scope: ScopeId = ROOT):
    return await ledger.reserve(EffectKey(name), 1, scope, Money(amount), ME, 0)


async def reserved(ledger: SqliteLedger) -> int:
    scope = await ledger.scope(ROOT)
    assert scope is not None
    return scope.reserved


_LOOK = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT * FROM sqlite_master')"


def test_another_process_leaves_the_log_of_two_connections_alone(path: Path) -> None:
    """The second connection of a process must not cost the first one its locks: whoever closes the
    file next would take itself for the last one, and delete what was written since."""

    def look_from_outside() -> None:
        log = Path(f"{path}-wal")
        before = log.stat().st_ino
        subprocess.run([sys.executable, "-c", _LOOK, path], check=True)
        assert log.stat().st_ino == before

    async def use_two() -> None:
        first, second = SqliteLedger(path), SqliteLedger(path)
        try:
            await fill(first)
            assert await reserved(second) == 1
            await asyncio.to_thread(look_from_outside)
            await reserve(first, "later")
        finally:
            await first.aclose()
            await second.aclose()

    async def look(ledger: SqliteLedger) -> None:
        assert await reserved(ledger) == 2

    asyncio.run(use_two())
    run(path, look)


def test_the_file_remembers(path: Path) -> None:
    """What one process wrote, the next one reads; folders are made as needed."""

    async def look(ledger: SqliteLedger) -> None:
        assert await reserved(ledger) == 3
        (claim,) = (await ledger.claims([EffectKey("call 2")]))[EffectKey("call 2")]
        assert claim.state is ClaimState.SENT

    run(path, lambda ledger: fill(ledger, 3), look)


def test_two_ledgers_on_one_file_see_each_other_at_once(path: Path) -> None:
    """A row that was read is read again after somebody else wrote."""

    async def both(one: SqliteLedger) -> None:
        await fill(one)
        other = SqliteLedger(path)
        for number in range(10):
            await reserve(one, f"one {number}")
            assert await reserve(other, f"other {number}") == Reserved()
            assert await reserved(one) == await reserved(other) == 3 + 2 * number
        await other.aclose()

    run(path, both)


def test_an_operation_that_fails_fails_alone(path: Path) -> None:
    """Its neighbours in the same transaction are carried out, and it leaves no trace."""

    async def use(ledger: SqliteLedger) -> None:
        await fill(ledger)
        good, again, lost, more = await asyncio.gather(
            reserve(ledger, "good"),
            reserve(ledger, "call 0"),
            reserve(ledger, "lost", scope=ScopeId("nowhere")),
            reserve(ledger, "more"),
            return_exceptions=True,
        )
        assert good == more == Reserved()
        assert isinstance(again, BugError)
        assert isinstance(lost, KeyError)
        assert await reserved(ledger) == 3

    run(path, use)


def test_closing_carries_out_what_was_called_before(path: Path) -> None:
    """Also for callers who no longer wait; afterwards it says that it is closed."""

    async def use(ledger: SqliteLedger) -> None:
        await fill(ledger, 0)
        calls = [asyncio.ensure_future(reserve(ledger, f"call {n}")) for n in range(100)]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        await asyncio.gather(ledger.aclose(), ledger.aclose())
        await asyncio.wait(calls)
        with pytest.raises(BugError, match="is closed"):
            await reserve(ledger, "late")

    async def look(ledger: SqliteLedger) -> None:
        assert await reserved(ledger) == 100

    run(path, use, look)


def test_closing_an_unused_ledger_makes_no_file(path: Path) -> None:
    """Nothing is opened before it is needed."""

    async def use(ledger: SqliteLedger) -> None:
        pass

    run(path, use)
    assert not path.exists()


def test_a_bug_in_the_thread_leaves_nobody_waiting(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits is told, and so is who comes later."""
    monkeypatch.setattr("threading.excepthook", lambda _: None)

    def fail(rows: object) -> None:
        raise RuntimeError("no fault of the caller, and none of the file")

    async def use(ledger: SqliteLedger) -> None:
        await fill(ledger)
        both = await asyncio.gather(
            ledger._do(fail),
            reserve(ledger, "waiting"),
            return_exceptions=True,
        )
        assert [type(each) for each in both] == [BugError, BugError]
        with pytest.raises(BugError, match="is closed"):
            await reserve(ledger, "late")

    run(path, use)
    for thread in threading.enumerate():
        if thread.name == "vega ledger":
            thread.join(timeout=PATIENCE_S)


def test_the_queue_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that stands still does not eat the memory."""
    monkeypatch.setattr("vegakit.store.thread._MOST_WAITING", 0)

    async def use(ledger: SqliteLedger) -> None:
        with pytest.raises(StoreError, match="operations wait for"):
            await ledger.claims([EffectKey("call")])

    run(path, use)


def test_another_format_says_what_to_do(path: Path) -> None:
    """A newer file asks for an update, an older one for its own version."""
    run(path, fill)
    for version, remedy in ((99, "update vegakit"), (0, "use the vegakit that wrote it")):
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE format_versions SET format_version = ?", (version,))

        async def use(ledger: SqliteLedger, words: str = remedy) -> None:
            with pytest.raises(InvalidRecordError, match=words):
                await reserved(ledger)

        run(path, use)


def test_a_file_of_something_else_is_refused(path: Path) -> None:
    """And works again once it is out of the way: the file is opened anew after each error."""
    path.parent.mkdir()
    path.write_text("a letter to my aunt, long enough to be taken for a header" * 10)

    async def use(ledger: SqliteLedger) -> None:
        with pytest.raises(StoreError, match="not a SQLite file; name another"):
            await reserved(ledger)
        path.unlink()  # noqa: ASYNC240
        await fill(ledger)

    run(path, use)


def test_a_folder_that_cannot_be_made_is_told(path: Path) -> None:
    """A file stands where the folder should be."""
    path.parent.write_text("")

    async def use(ledger: SqliteLedger) -> None:
        with pytest.raises(StoreError, match=r"cannot use .*ledger\.db"):
            await reserved(ledger)

    run(path, use)


def test_an_amount_that_no_file_can_hold_is_refused(path: Path) -> None:
    """Nothing of the transaction is kept, neither in the file nor in memory."""

    async def use(ledger: SqliteLedger) -> None:
        await ledger.open(ROOT, ScopeRule(None), 0)
        await ledger.renew(ME, 1000)
        with pytest.raises(StoreError, match="nine billion"):
            await reserve(ledger, "huge", 10**19)
        assert await reserved(ledger) == 0
        assert await reserve(ledger, "huge", 7) == Reserved()

    run(path, use)


def test_a_file_that_is_held_too_long_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is waited for, but not for ever."""
    run(path, fill)
    monkeypatch.setattr("vegakit.store.sqlite.connection.BUSY_S", 0.02)

    async def use(ledger: SqliteLedger) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="another process has held it"):
                await reserved(ledger)
        assert await reserved(ledger) == 1

    run(path, use)


def test_who_met_others_looks_steadily_and_lets_them_in(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own wait would look ever less often, and who has let go would always be first."""
    run(path, fill)
    slept: list[float] = []
    others = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 30:
            others.execute("COMMIT")

    monkeypatch.setattr(connection, "time", SimpleNamespace(sleep=sleep))

    async def use(ledger: SqliteLedger) -> None:
        assert await reserved(ledger) == 1
        assert slept == []
        others.execute("BEGIN IMMEDIATE")
        assert await reserved(ledger) == 1
        assert len({*slept[:30]}) == 1
        assert len(slept) < 32
        for _ in range(3):
            await reserved(ledger)
        assert len(slept) >= 33
        assert min(slept[30:]) > slept[0]

    with closing(others):
        run(path, use)


def test_pruning_goes_page_by_page(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that are full, a page that is not, and none at all count alike."""
    monkeypatch.setattr("vegakit.store.ledger_rows._PAGE", 4)

    async def use(ledger: SqliteLedger) -> None:
        await fill(ledger, 10)
        for number in range(9):
            await ledger.answer(EffectKey(f"call {number}"), 1, Money(0), 5)
        assert [await ledger.prune(9), await ledger.prune(9)] == [9, 0]
        scope = await ledger.scope(ROOT)
        assert scope is not None
        assert (scope.claims, scope.reserved) == (1, 1)

    run(path, use)


def test_rows_are_not_kept_without_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that makes many claims forgets those it has not used lately."""
    monkeypatch.setattr("vegakit.store.ledger_rows._MOST_KEPT", 5)

    async def use(ledger: SqliteLedger) -> None:
        await fill(ledger, 20)
        assert await reserved(ledger) == 20
        kept = await ledger._do(lambda rows: len(rows.budget.claims))
        assert kept <= 5

    run(path, use)


def test_what_dead_holders_left_is_found_by_index(path: Path) -> None:
    """The sweep does not read through all the claims there ever were."""

    def plan(rows: LedgerRows) -> str:
        query = "SELECT id FROM claims WHERE holder = ? AND state = 'sent'"
        return str(rows._execute(f"EXPLAIN QUERY PLAN {query}", ("me",)).fetchall())

    async def use(ledger: SqliteLedger) -> None:
        await fill(ledger)
        assert "INDEX live_claims (holder=?)" in await ledger._do(plan)

    run(path, use)


def test_the_loop_does_not_wait_for_the_disk(path: Path) -> None:
    """While another process holds the file, everything else in this one goes on."""

    async def use(ledger: SqliteLedger) -> None:
        await fill(ledger)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.ensure_future(reserve(ledger, "patient"))
            for _ in range(1_000):
                await asyncio.sleep(0)
            assert not waiting.done()
            other.execute("ROLLBACK")
        assert await waiting == Reserved()

    run(path, use)


def test_a_ledger_and_documents_share_a_file(path: Path) -> None:
    """Each has its own format."""

    async def use(ledger: SqliteLedger) -> None:
        await fill(ledger)
        store = SqliteStore(path)
        assert await store.put("run", "a", b"1", expected=0)
        await store.aclose()
        assert await reserved(ledger) == 1

    run(path, use)


def test_a_scope_whose_name_is_damaged_is_not_begun_anew(path: Path) -> None:
    """Nothing would be spent in it: the next who does not find his scope looks at all of them."""
    run(path, fill)
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE scopes SET id = 'roou' WHERE id = 'root'")
        file.commit()

    async def again(ledger: SqliteLedger) -> None:
        with pytest.raises(StoreError, match=r"'roou' of its table scopes does not fit its seal"):
            await fill(ledger)

    run(path, again)
