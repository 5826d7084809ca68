"""The state of tenants, in memory, on SQLite and on PostgreSQL, does what its port says."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.patience import PATIENCE_S
from tests.store.postgres import DSN, connected, own_schema
from vegakit.errors import BugError
from vegakit.ids import TenantId
from vegakit.ports import Document, TenantRecords, TenantStore
from vegakit.store import open_tenants
from vegakit.store.postgres.connection import key_lock
from vegakit.store.postgres.stores import postgres_tenants

A, B = TenantId("a"), TenantId("b")
MANY = [TenantId(f"other {n}") for n in range(20)]


@asynccontextmanager
async def opened(kind: str, folder: Path, count: int = 1) -> AsyncGenerator[list[TenantStore]]:
    """Yield stores that share one place, as servers do; in memory there is one only."""
    with own_schema() if kind == "postgres" else nullcontext("") as schema:
        places: dict[str, Callable[[], TenantStore]] = {
            "memory": lambda: open_tenants(":memory:"),
            "sqlite": lambda: open_tenants(folder / "tenants.db"),
            "postgres": lambda: postgres_tenants(DSN, schema=schema),
        }
        async with AsyncExitStack() as stack:
            servers = 1 if kind == "memory" else count
            yield [
                await stack.enter_async_context(aclosing(places[kind]())) for _ in range(servers)
            ]


KINDS = pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])


@KINDS
async def test_a_transaction_is_kept_whole_or_not_at_all(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as [store]:

        def fails(records: TenantRecords) -> None:
            records.put("process", "p", b"new")
            records.emit(b"created", 5)
            raise LookupError

        def works(records: TenantRecords) -> Document | None:
            records.put("process", "p", b"one", state="new", rank=3, owner="ann")
            records.put("process", "p", b"two", state="ready", rank=4, owner="ann")
            records.emit(b"created", 5)
            return records.get("process", "p")

        with pytest.raises(LookupError):
            await store.transact(A, fails)
        assert await store.read(A, lambda records: records.get("process", "p")) is None
        kept = Document("p", b"two", 2, "ready", 4, "ann")
        assert await store.transact(A, works) == kept
        assert await store.read(A, lambda records: records.get("process", "p")) == kept
        assert await store.read(A, lambda records: records.find("process")) == [kept]
        assert await store.read(B, lambda records: records.find("process")) == []
        assert await store.read(B, lambda records: records.get("process", "p")) is None
        assert [event.number for event in (await store.events(A)).events] == [1]
        assert (await store.events(B)).events == ()


@KINDS
async def test_a_decision_looks_before_it_changes(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as [store]:
        for look in (lambda it: it.find("process"), lambda it: it.counts("process")):

            def late(records: TenantRecords, look: Callable[..., object] = look) -> None:
                records.put("process", "p", b"")
                look(records)

            with pytest.raises(BugError, match="before it changes"):
                await store.transact(A, late)


@KINDS
async def test_a_page_ends_with_the_document_that_fills_it(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as [store]:

        def fill(records: TenantRecords) -> None:
            for number, key in enumerate("abcde"):
                records.put("kind", key, b"x" * 100, rank=-number)

        await store.transact(A, fill)
        for most, limit, after, wanted in (
            (None, 9, None, "edcba"),
            (250, 9, None, "edc"),
            (200, 9, None, "ed"),
            (1, 9, "b", "c"),
            (250, 2, "", "ab"),
        ):
            seen = await store.read(
                A,
                lambda it, most=most, limit=limit, after=after: it.find(
                    "kind", after=after, limit=limit, most_bytes=most
                ),
            )
            assert "".join(one.key for one in seen) == wanted


DOCUMENTS = st.lists(
    st.tuples(
        st.sampled_from("aAé9bz"),
        st.sampled_from(["new", "ready"]),
        st.integers(-2, 2),
        st.sampled_from(["ann", "bob"]),
        st.booleans(),
    ),
    max_size=12,
)


@given(
    DOCUMENTS,
    st.sampled_from([None, "new", "ready", "none"]),
    st.sampled_from([None, "ann"]),
    st.sampled_from([None, 0, 1]),
    st.sampled_from([None, "b", "Z", ""]),
    st.integers(0, 5),
)
def test_all_find_what_a_plain_list_finds(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[str, str, int, str, bool]],
    state: str | None,
    owner: str | None,
    up_to: int | None,
    after: str | None,
    limit: int,
) -> None:
    expected: dict[str, tuple[int, str, str]] = {}
    for key, its_state, rank, whose, deleted in changes:
        expected.pop(key, None)
        if not deleted:
            expected[key] = (rank, its_state, whose)
    found = sorted(
        (rank, key)
        for key, (rank, its_state, whose) in expected.items()
        if state in (None, its_state)
        and owner in (None, whose)
        and (up_to is None or rank <= up_to)
        and (after is None or key > after)
    )
    if after is not None:
        found.sort(key=lambda place: place[1])

    async def run(kind: str) -> None:
        async with opened(kind, tmp_path_factory.mktemp(kind)) as [store]:
            for key, its_state, rank, whose, deleted in changes:

                def change(records: TenantRecords) -> None:
                    if deleted:  # noqa: B023  (called before the next turn of the loop)
                        records.delete("kind", key)  # noqa: B023
                    else:
                        records.put("kind", key, b"", state=its_state, rank=rank, owner=whose)  # noqa: B023

                await store.transact(A, change)
            seen = await store.read(
                A,
                lambda records: records.find(
                    "kind", state=state, owner=owner, up_to=up_to, after=after, limit=limit
                ),
            )
            assert [(one.rank, one.key) for one in seen] == found[:limit], kind
            counts = await store.read(A, lambda records: dict(records.counts("kind")))
            states = [its_state for _, its_state, _ in expected.values()]
            assert counts == {name: states.count(name) for name in states}, kind
            due = await store.due("kind", "ready", 0, limit=limit)
            ready = sorted((r, key) for key, (r, its, _) in expected.items() if its == "ready")
            assert list(due) == [(A, key) for rank, key in ready if rank <= 0][:limit], kind

    for kind in ("memory", "sqlite"):
        asyncio.run(run(kind))


@KINDS
async def test_servers_lose_no_change_and_number_events_without_gaps(
    kind: str, tmp_path: Path
) -> None:
    """Three servers count in one document; a reader follows the events all the while."""
    each = 40

    def count(records: TenantRecords) -> int:
        before = records.get("counter", "c")
        number = int(before.value) + 1 if before else 1
        records.put("counter", "c", str(number).encode())
        records.emit(str(number).encode(), number)
        return number

    async with opened(kind, tmp_path, count=3) as stores:
        total = each * len(stores)
        seen: list[tuple[int, bytes]] = []

        async def follow() -> None:
            while len(seen) < total:
                page = await stores[0].events(A, after=seen[-1][0] if seen else 0, limit=7)
                assert page.missed == 0
                seen.extend((event.number, event.event) for event in page.events)
                await asyncio.sleep(0)

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(follow())
            counted = [
                group.create_task(_now(store.transact(A, count)))
                for _ in range(each)
                for store in stores
            ]
        assert sorted(task.result() for task in counted) == list(range(1, total + 1))
        assert seen == [(number, str(number).encode()) for number in range(1, total + 1)]


async def _now(awaitable: object) -> int:
    return await awaitable  # pyright: ignore[reportGeneralTypeIssues]


@KINDS
async def test_forgotten_events_are_told_and_numbers_go_on(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as [store]:
        for at_ms in range(1, 6):
            await store.transact(A, lambda records, at=at_ms: records.emit(b"", at))
        assert await store.forget_events(4) == 3
        page = await store.events(A, after=1)
        assert ([event.number for event in page.events], page.missed) == ([4, 5], 2)
        assert await store.forget_events(100) == 1
        await store.transact(A, lambda records: records.emit(b"", 200))
        page = await store.events(A, after=5)
        assert ([event.number for event in page.events], page.missed) == ([6], 0)


@KINDS
async def test_a_bug_in_one_decision_ends_nothing_else(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as [store]:
        for error in (RecursionError, AssertionError, MemoryError, OverflowError, AttributeError):

            def fails(records: TenantRecords, error: type[Exception] = error) -> None:
                records.put("process", "p", b"")
                raise error

            with pytest.raises(error):
                await store.transact(A, fails)
        await store.transact(A, lambda records: records.put("process", "q", b""))
        found = await store.read(A, lambda records: [one.key for one in records.find("process")])
        assert found == ["q"]


async def test_what_was_answered_is_there_for_the_next_server(tmp_path: Path) -> None:
    place = tmp_path / "tenants.db"
    async with aclosing(open_tenants(place)) as store:
        await store.transact(A, lambda records: records.put("process", "p", b"x"))
    async with aclosing(open_tenants(place)) as store:
        found = await store.read(A, lambda records: records.get("process", "p"))
    assert found == Document("p", b"x", 1)


@asynccontextmanager
async def locked(tenants: list[TenantId]) -> AsyncGenerator[TenantStore]:
    """Yield a store whose writers of these tenants wait, since somebody else holds their locks."""
    with own_schema() as schema:
        async with aclosing(postgres_tenants(DSN, schema=schema)) as store:
            await store.transact(A, put)
            with connected() as other, other.transaction():
                for one in tenants:
                    key = key_lock(schema, "tenant", one)
                    other.execute("SELECT pg_advisory_xact_lock(%s)", (key,))
                waiting = [asyncio.ensure_future(store.transact(one, put)) for one in tenants]
                await asyncio.sleep(0)  # they are queued
                async with asyncio.timeout(PATIENCE_S):
                    yield store
                assert not any(one.done() for one in waiting)
            await asyncio.gather(*waiting)


def put(records: TenantRecords) -> None:
    records.put("process", "p", b"")


async def test_who_looks_waits_for_nobody_who_writes() -> None:
    async with locked([A, *MANY]) as store:
        seen = await store.read(A, lambda records: records.get("process", "p"))
        assert seen is not None
        assert seen.version == 1


async def test_a_tenant_does_not_wait_for_all_others() -> None:
    async with locked([A]) as store:
        # Some of so many share a thread with it, and wait as well.
        others = [asyncio.ensure_future(store.transact(one, put)) for one in MANY]
        done, _ = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        assert not any(one.exception() for one in done)
    await asyncio.gather(*others)
