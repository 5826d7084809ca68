"""What a ledger on PostgreSQL does when others, the network or the server get in its way."""

import asyncio
from contextlib import AsyncExitStack, aclosing
from typing import Any

import psycopg
import pytest

from tests.patience import until
from tests.store.postgres import DSN, asked, connected, dsn_of, waits
from vegakit.conversation import Text, UserMessage
from vegakit.errors import BugError, InvalidRecordError, StoreError
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import ClaimState, Reserved, ScopeClosed, ScopeRule, Settlement
from vegakit.store import PostgresLedger, PostgresMemory, PostgresStore
from vegakit.store.postgres import PostgresSession

ROOT, ME = ScopeId("root"), HolderId("me")


async def fill(ledger: PostgresLedger) -> None:
    await ledger.open(ROOT, ScopeRule(Money(100)), 0)
    await ledger.renew(ME, 1000)


async def reserve(ledger: PostgresLedger, name: str, amount: int = 1, scope: ScopeId = ROOT):
    return await ledger.reserve(EffectKey(name), 1, scope, Money(amount), ME, 0)


def reserved(schema: str) -> int:
    ((amount,),) = asked(schema, "SELECT reserved FROM scopes WHERE id = 'root'")
    return amount


def end_sessions_of(schema: str) -> int:
    """Ends the connections of this test's ledger, as a server that is restarted does."""
    find = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
    with connected() as server:
        return len(server.execute(find, (schema,)).fetchall())


def test_many_make_the_same_schema_and_scope_at_once(
    schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All of them find it made, and it is made once. Nothing is said of it."""

    async def use() -> None:
        async with AsyncExitStack() as stack:
            ledgers = [PostgresLedger(DSN, schema=schema) for _ in range(6)]
            for ledger in ledgers:
                await stack.enter_async_context(aclosing(ledger))
            await asyncio.gather(*map(fill, ledgers))
            names = [f"call {number}" for number in range(6)]
            assert {*await asyncio.gather(*map(reserve, ledgers, names))} == {Reserved()}
            for number in range(20):
                new = ScopeId(f"scope {number}"), ScopeRule(Money(100)), 0
                await asyncio.gather(*(ledger.open(*new) for ledger in ledgers))

    asyncio.run(use())
    assert asked(schema, "SELECT id, reserved FROM scopes WHERE reserved > 0") == [("root", 6)]
    assert asked(schema, "SELECT COUNT(*) FROM scopes") == [(21,)]
    assert caplog.messages == []


def test_an_operation_that_fails_fails_alone(schema: str) -> None:
    """Its neighbours in the same transaction are carried out, and it leaves no trace."""

    async def use() -> None:
        async with aclosing(PostgresLedger(DSN, schema=schema)) as ledger:
            await fill(ledger)
            await reserve(ledger, "once")
            good, again, lost, nul, huge, more = await asyncio.gather(
                reserve(ledger, "good"),
                reserve(ledger, "once"),
                reserve(ledger, "lost", scope=ScopeId("nowhere")),
                reserve(ledger, "nul \x00"),
                reserve(ledger, "surrogate \ud800"),
                reserve(ledger, "more"),
                return_exceptions=True,
            )
            assert good == more == Reserved()
            assert isinstance(again, BugError)
            assert isinstance(lost, KeyError)
            assert isinstance(nul, StoreError)
            assert isinstance(huge, StoreError)

    asyncio.run(use())
    assert reserved(schema) == 3


def test_operations_of_one_transaction_see_each_other(schema: str) -> None:
    """They queue up behind a row that is held: a claim expires, one fails and takes nothing along,
    a scope closes with its root."""
    you, inner = HolderId("you"), ScopeId("inner")

    async def use() -> None:
        async with aclosing(PostgresLedger(dsn_of(schema), schema=schema)) as ledger:
            await fill(ledger)
            with psycopg.connect(DSN) as other:
                other.execute(f"SELECT 1 FROM {schema}.scopes FOR UPDATE".encode())
                first = asyncio.ensure_future(reserve(ledger, "first"))
                await until(lambda: waits(schema))
                rest = asyncio.gather(
                    ledger.renew(you, 50_000),
                    ledger.reserve(EffectKey("yours"), 1, ROOT, Money(5), you, 0),
                    ledger.expire({you: 50_000}, 60_000),
                    ledger.open(inner, ScopeRule(None), 0, parent=ROOT),
                    reserve(ledger, "first"),
                    ledger.close(ROOT),
                    reserve(ledger, "late", scope=inner),
                    return_exceptions=True,
                )
                await asyncio.sleep(0)
            assert await first == Reserved()
            expired = [("yours#1", Settlement(ClaimState.UNKNOWN, Money(5)))]
            *done, again, closed, late = await rest
            assert done == [None, Reserved(), expired, Reserved()]
            assert isinstance(again, BugError)
            assert (closed, late) == (None, ScopeClosed(inner))

    asyncio.run(use())
    assert reserved(schema) == 1
    states = asked(schema, "SELECT id, state FROM claims ORDER BY id")
    assert states == [("first#1", "sent"), ("yours#1", "unknown")]
    assert asked(schema, "SELECT id FROM scopes WHERE is_open") == []


def test_an_amount_that_no_row_can_hold_is_refused(schema: str) -> None:
    """And the ledger goes on."""

    async def use() -> None:
        async with aclosing(PostgresLedger(DSN, schema=schema)) as ledger:
            await fill(ledger)
            await ledger.open(ROOT, ScopeRule(None), 0)
            with pytest.raises(StoreError, match="nine billion"):
                await reserve(ledger, "huge", 10**19)
            assert await reserve(ledger, "huge", 7) == Reserved()

    asyncio.run(use())
    assert reserved(schema) == 7


def test_a_connection_that_was_ended_is_made_anew(schema: str) -> None:
    """Between two operations nobody notices."""

    async def use() -> None:
        async with aclosing(PostgresLedger(dsn_of(schema), schema=schema)) as ledger:
            await fill(ledger)
            assert end_sessions_of(schema) == 1
            assert await reserve(ledger, "after") == Reserved()

    asyncio.run(use())
    assert reserved(schema) == 1


def test_an_operation_cut_off_in_the_middle_is_carried_out_once(schema: str) -> None:
    """It waits for a row when its connection is ended."""

    async def use() -> None:
        async with aclosing(PostgresLedger(dsn_of(schema), schema=schema)) as ledger:
            await fill(ledger)
            with psycopg.connect(DSN) as other:
                other.execute(f"SELECT 1 FROM {schema}.scopes FOR UPDATE".encode())
                waiting = asyncio.ensure_future(reserve(ledger, "patient"))
                await until(lambda: waits(schema))
                assert end_sessions_of(schema) == 1
                await until(lambda: waits(schema))
            assert await waiting == Reserved()

    asyncio.run(use())
    assert reserved(schema) == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_without_an_answer_is_looked_up(
    schema: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost before it was committed it is carried out again, lost after it is not."""
    execute, losses = PostgresSession.execute, [1]

    def losing(self: PostgresSession, statement: str, *values: Any) -> Any:
        if statement == "COMMIT" and losses and losses.pop():
            if when == "after":
                execute(self, statement)
                with self.connection.pipeline() as pipeline:
                    pipeline.sync()
            self.connection.close()
            raise psycopg.OperationalError("the network is gone")
        return execute(self, statement, *values)

    async def use() -> None:
        async with aclosing(PostgresLedger(DSN, schema=schema)) as ledger:
            await fill(ledger)
            monkeypatch.setattr(PostgresSession, "execute", losing)
            assert await reserve(ledger, "call") == Reserved()

    asyncio.run(use())
    assert losses == []
    assert reserved(schema) == 1


def test_a_server_that_stays_away_after_a_commit_leaves_doubt(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller is told to look before it does it again."""
    execute = PostgresSession.execute

    def losing(self: PostgresSession, statement: str, *values: Any) -> Any:
        if statement == "COMMIT" or "pg_xact_status" in statement:
            self.connection.close()
            raise psycopg.OperationalError("the network is gone")
        return execute(self, statement, *values)

    async def use() -> None:
        async with aclosing(PostgresLedger(DSN, schema=schema)) as ledger:
            await fill(ledger)
            with monkeypatch.context() as gone:
                gone.setattr(PostgresSession, "execute", losing)
                with pytest.raises(StoreError, match="not known: look before you do it again"):
                    await reserve(ledger, "call")
            assert await reserve(ledger, "call") == Reserved()

    asyncio.run(use())


def test_no_server_is_told(schema: str) -> None:
    """Without the password."""

    async def use() -> None:
        dsn = "host=127.0.0.1 port=1 dbname=test password=secret"
        async with aclosing(PostgresLedger(dsn, schema=schema)) as ledger:
            with pytest.raises(StoreError, match=r"127\.0\.0\.1:1/test.*start the server") as told:
                await reserve(ledger, "call")
            assert "secret" not in str(told.value)

    asyncio.run(use())


def test_rows_that_are_held_too_long_are_told(schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is waited for, but not for ever, and works again afterwards."""
    monkeypatch.setattr("vegakit.store.postgres.connection.LOCK_S", 0.05)

    async def use() -> None:
        async with aclosing(PostgresLedger(DSN, schema=schema)) as ledger:
            await fill(ledger)
            with psycopg.connect(DSN) as other:
                other.execute(f"SELECT 1 FROM {schema}.scopes FOR UPDATE".encode())
                with pytest.raises(StoreError, match="another process has held the rows"):
                    await reserve(ledger, "call")
            assert await reserve(ledger, "call") == Reserved()

    asyncio.run(use())


def test_another_format_says_what_to_do(schema: str) -> None:
    """A newer schema asks for an update."""

    async def use(ledger: PostgresLedger) -> None:
        async with aclosing(ledger):
            await fill(ledger)

    asyncio.run(use(PostgresLedger(DSN, schema=schema)))
    asked(schema, "UPDATE format_versions SET format_version = 9 RETURNING 1")
    with pytest.raises(InvalidRecordError, match=r"format 9.*update vegakit"):
        asyncio.run(use(PostgresLedger(DSN, schema=schema)))


def test_ledger_documents_and_memory_share_a_schema(schema: str) -> None:
    """Each has its own format; of those who write a turn or a document first, one does."""

    async def use() -> None:
        async with (
            aclosing(PostgresLedger(DSN, schema=schema)) as ledger,
            aclosing(PostgresStore(DSN, schema=schema)) as store,
            aclosing(PostgresStore(DSN, schema=schema)) as other_store,
            aclosing(PostgresMemory(DSN, schema=schema)) as memory,
            aclosing(PostgresMemory(DSN, schema=schema)) as other_memory,
        ):
            await fill(ledger)
            said = [UserMessage((Text("once"),))]
            for number in range(20):
                key = str(number)
                both = (each.put("run", key, b"", expected=0) for each in (store, other_store))
                assert sorted(await asyncio.gather(*both)) == [False, True]
                turns = (each.append("me", said, key=key) for each in (memory, other_memory))
                assert sorted(await asyncio.gather(*turns)) == [False, True]
            assert len(await memory.load("me")) == 20

    asyncio.run(use())
