"""The state of nodes: in memory, in a file and on a server, kept once and as a whole."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from campaigns.node_state import FILE, Round, play
from campaigns.nodes import FOLDER

from tests.store.postgres import asked, own_schema, url_of
from vegakit.contracts import NodeOutcome, NodeProgram, StateRecords
from vegakit.errors import StoreError, UserError
from vegakit.store import MemoryRecords, RecordsConflict, RecordStore, open_records
from vegakit.vesper import DirectPath, NodeHost, PythonPath, grant_of, load_node, parse_node

GIVEN = {"request_id": "r1", "source_id": "a", "target_id": "b", "amount": "30.00"}
PATHS = (PythonPath, DirectPath)


@pytest.fixture
def schema() -> Generator[str]:
    with own_schema() as name:
        yield name


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> Generator[RecordStore]:
    places = {
        "memory": lambda: None,
        "sqlite": lambda: tmp_path / "state.db",
        "postgres": lambda: url_of(schema),
    }
    made = open_records(places[request.param]())
    yield made
    made.close()


def _transfer(change: Callable[[str], str] = str) -> NodeProgram:
    return parse_node(change(FILE.read_text()).encode(), "transfer.vsp").program


def _account(name: str, balance: str) -> dict[str, str]:
    return {"id": name, "owner": name.upper(), "balance": balance}


def _begun(store: RecordStore, node: NodeProgram) -> StateRecords:
    store.put(node.states[0], [_account("a", "100.00"), _account("b", "5.00")])
    return node.states[0]


def _balances(store: RecordStore, state: StateRecords) -> dict[str, str]:
    return {each["id"]: each["balance"] for each in store.all_records(state)}


def _host(store: RecordStore, path: Any = PythonPath) -> NodeHost:
    return NodeHost(store, grant=grant_of(["database"]), path=path)


async def test_a_transfer_is_kept_once_for_its_key(store: RecordStore) -> None:
    """The second time the outcome of the first is given, by the other path as well."""
    node = _transfer()
    state = _begun(store, node)
    first = await _host(store).run(node, GIVEN)
    again = await _host(store, DirectPath).run(node, GIVEN)
    assert first.outputs == again.outputs == {"source_balance": "70.00", "target_balance": "35.00"}
    assert first.transaction_id == again.transaction_id != ""
    assert _balances(store, state) == {"a": "70.00", "b": "35.00"}
    other = await _host(store).run(node, {**GIVEN, "request_id": "r2"})
    assert other.transaction_id != first.transaction_id
    assert _balances(store, state) == {"a": "40.00", "b": "65.00"}


async def test_a_key_with_other_inputs_is_refused(store: RecordStore) -> None:
    """It is another request, and is not answered with the outcome of this one."""
    node = _transfer()
    _begun(store, node)
    await _host(store).run(node, GIVEN)
    with pytest.raises(UserError, match="with the key 'r1' and other inputs"):
        await _host(store).run(node, {**GIVEN, "amount": "31.00"})


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"target_id": "c"}, ("error", "unknown_account", "target")),
        ({"amount": "100.01"}, ("error", "insufficient_funds", "source_balance")),
        ({"target_id": "a"}, ("broken", "constraint of target_id: target_id != source_id", "")),
    ],
)
async def test_without_a_success_nothing_is_kept(
    store: RecordStore, change: dict[str, str], wanted: tuple[str, ...], path: Any
) -> None:
    """Neither records nor the key, so that the request may be sent again."""
    node = _transfer()
    state = _begun(store, node)
    host = _host(store, path)
    outcome = await host.run(node, {**GIVEN, **change})
    assert (outcome.status, outcome.reason, outcome.step) == wanted
    assert _balances(store, state) == {"a": "100.00", "b": "5.00"}
    assert (await host.run(node, GIVEN)).status == "success"


@pytest.mark.parametrize("path", PATHS)
async def test_a_broken_invariant_undoes_the_run(store: RecordStore, path: Any) -> None:
    """Money that is made on the way is seen before it is kept, over what was touched."""
    node = _transfer(lambda text: text.replace("target.balance + amount}", "target.balance + 40}"))
    state = _begun(store, node)
    outcome = await _host(store, path).run(node, GIVEN)
    assert outcome.status == "broken"
    assert outcome.reason == "invariant: SUM(accounts.balance) == old(SUM(accounts.balance))"
    assert _balances(store, state) == {"a": "100.00", "b": "5.00"}


async def test_an_invariant_that_did_not_hold_before_is_told(store: RecordStore) -> None:
    """A node does not run on records that are wrong already."""
    text = FILE.read_text().replace("[balance >= 0, balance <= 1000000000000]", "[balance > -100]")
    node = parse_node(text.encode(), "transfer.vsp").program
    store.put(node.states[0], [_account("a", "100.00"), _account("b", "-5.00")])
    outcome = await _host(store).run(node, {**GIVEN, "amount": "50.00"})
    assert (outcome.status, outcome.reason) == (
        "broken",
        "invariant before: all(accounts.balance >= 0)",
    )


@pytest.mark.parametrize("path", PATHS)
async def test_an_order_is_paid_once(store: RecordStore, path: Any) -> None:
    """From any other state than the named one a transition is the declared error."""
    node = load_node(FOLDER / "pay_order.vsp").program
    orders, wallets = node.states
    order = {"id": 7, "customer": "ann", "price": "9.50", "status": "pending"}
    store.put(orders, [order])
    store.put(wallets, [{"customer": "ann", "balance": "10.00", "spent": "0.00"}])
    host = _host(store, path)
    first, second = await host.run(node, {"order_id": 7}), await host.run(node, {"order_id": 7})
    assert first.outputs == {"balance": "0.50", "status": "paid"}
    assert (second.status, second.reason) == ("error", "not_pending")
    assert store.all_records(orders) == [{**order, "status": "paid"}]


async def test_a_reservation_is_inserted_once(store: RecordStore) -> None:
    """What exists is not written over."""
    node = load_node(FOLDER / "reserve_stock.vsp").program
    articles, reservations = node.states
    store.put(articles, [{"sku": "x", "on_hand": 5, "reserved": 0}])
    store.put(reservations, [])
    given = {"order_id": "o1", "sku": "x", "pieces": 2}
    assert (await _host(store).run(node, given)).outputs == {"free": 3}
    assert (await _host(store).run(node, given)).reason == "already_reserved"
    assert (await _host(store).run(node, {**given, "order_id": "o2", "pieces": 4})).reason == (
        "out_of_stock"
    )
    assert store.all_records(articles) == [{"sku": "x", "on_hand": 5, "reserved": 2}]


async def test_a_refund_follows_the_rule_of_another_node(store: RecordStore) -> None:
    """Timestamps and all come back from the place as they were put."""
    node = load_node(FOLDER / "refund_once.vsp").program
    purchase = {
        "id": "p",
        "email": "ann@example.com",
        "paid": "100.00",
        "refunded": "0.00",
        "bought": "2026-01-01T10:00:00.000001Z",
        "status": "delivered",
    }
    store.put(node.states[0], [purchase])
    given = {"request_id": "r", "purchase_id": "p", "opened": True}
    host = _host(store)
    late = await host.run(node, {**given, "returned": "2026-03-01T10:00:00Z"})
    assert (late.status, late.reason) == ("error", "not_refundable")
    first = await host.run(node, {**given, "returned": "2026-01-05T10:00:00Z"})
    assert first.outputs == {"amount": "85.00"}
    assert (await host.run(node, {**given, "returned": "2026-01-05T10:00:00Z"})) == NodeOutcome(
        first.status, first.outputs, transaction_id=first.transaction_id
    )
    kept = {**purchase, "refunded": "85.00", "status": "returned"}
    assert store.all_records(node.states[0]) == [kept]


WIDE = """\
node_id: wide_v1
type: test
intent: Keep a value of every type.
types:
  Part: {fields: {name: string<9>, price: decimal<3>}}
state:
  things:
    key: id
    fields: {id: integer, text: string, price: decimal<4>, ok: boolean, raw: bytes, at: timestamp,
      kind: "enum[a, b]", parts: "array<Part, 3>", tags: "set<string<9>, 3>",
      counts: "map<integer, integer, 3>"}
inputs: {id: {type: integer}}
outputs: {success: {price: decimal<4>}}
flow:
  - {step: thing, operation: read, parameters: {from: things, key: id}}
  - {step: price, operation: compute, parameters: {value: thing.price + 0.0001}}
  - step: kept
    operation: write
    parameters: {to: things, key: id, set: "{price: price, ok: NOT thing.ok}"}
security: {capabilities_required: [database.read.things, database.write.things]}
"""


@pytest.mark.parametrize("path", PATHS)
async def test_every_type_comes_back_as_it_was(store: RecordStore, path: Any) -> None:
    """Decimals with all their places, times to the microsecond, records in lists."""
    node = parse_node(WIDE.encode(), "wide.vsp").program
    thing = {
        "id": -(2**63),
        "text": "é\n'\"😀",
        "price": "99999999999999999999.9998",
        "ok": True,
        "raw": "AP8=",
        "at": "1969-12-31T23:59:59.999999Z",
        "kind": "b",
        "parts": [{"name": "x", "price": "0.001"}],
        "tags": ["a", "b"],
        "counts": {"-5": 1, "7": 2},
    }
    store.put(node.states[0], [thing])
    assert store.all_records(node.states[0]) == [thing]
    outcome = await _host(store, path).run(node, {"id": -(2**63)})
    assert outcome.outputs == {"price": "99999999999999999999.9999"}
    changed = {**thing, "price": "99999999999999999999.9999", "ok": False}
    assert store.all_records(node.states[0]) == [changed]


SQL = """\
node_id: spent_v1
type: report
intent: Add up what a customer has.
types:
  Row: {fields: {owner: string<9>, total: decimal<2>}}
inputs: {least: {type: decimal<2>}, owner: {type: string<40>}}
outputs: {success: {rows: "array<Row, 5>"}, error: {error_code: "enum[no_answer]"}}
flow:
  - step: rows
    operation: sql
    parameters:
      query: SELECT owner, MAX(balance) AS total FROM accounts WHERE owner = :owner GROUP BY owner
      values: "{owner: owner}"
    error_handling: {failed: no_answer}
security: {capabilities_required: [database.read]}
"""


async def test_a_query_binds_its_values_and_only_reads(tmp_path: Path, schema: str) -> None:
    """What is given never becomes a part of the text, and a statement that writes fails."""
    transfer = _transfer()
    for place in (tmp_path / "state.db", url_of(schema)):
        store = open_records(place)
        state = _begun(store, transfer)
        node = parse_node(SQL.encode(), "s.vsp").program
        host = _host(store)
        given = {"least": "1.00", "owner": "A"}
        assert (await host.run(node, given)).outputs == {
            "rows": [{"owner": "A", "total": "100.00"}]
        }
        hostile = {**given, "owner": "A'; DROP TABLE accounts; --"}
        assert (await host.run(node, hostile)).outputs == {"rows": []}
        writing = "DELETE FROM accounts WHERE owner = :owner RETURNING owner, balance AS total"
        select = "SELECT owner, MAX(balance) AS total FROM accounts WHERE owner = :owner GROUP BY"
        text = SQL.replace(f"{select} owner", writing)
        outcome = await host.run(parse_node(text.encode(), "s.vsp").program, given)
        assert (outcome.status, outcome.reason) == ("error", "no_answer")
        assert _balances(store, state) == {"a": "100.00", "b": "5.00"}
        store.close()


@pytest.mark.parametrize(
    ("old", "new"),
    [(":owner GROUP", "'x' GROUP"), ("values: ", "# "), (":owner GROUP", ":owner; GROUP")],
)
def test_a_query_that_could_be_joined_is_refused(old: str, new: str) -> None:
    """All values are bound by name, and there is one statement."""
    with pytest.raises(UserError, match="a query is one statement with its values as :name"):
        parse_node(SQL.replace(old, new).encode(), "s.vsp")


async def test_the_same_key_at_once_is_carried_out_once(store: RecordStore) -> None:
    """Whoever comes second waits for the first, and is given its outcome."""
    node = _transfer()
    state = _begun(store, node)
    host = _host(store)
    outcomes = await asyncio.gather(*(host.run(node, GIVEN) for _ in range(6)))
    assert len({each.transaction_id for each in outcomes}) == 1
    assert _balances(store, state) == {"a": "70.00", "b": "35.00"}


class _Interfering:
    """A place where others get in the way of the first transactions, after all was asked."""

    def __init__(self, store: RecordStore, times: int) -> None:
        self._store, self.left = store, times

    @contextmanager
    def transaction(self, timeout_s: float) -> Generator[Any]:
        with self._store.transaction(timeout_s) as records:
            yield records
            if self.left:
                self.left -= 1
                raise RecordsConflict("a deadlock")


@pytest.mark.parametrize(("times", "wanted"), [(3, "35.00"), (1_000, None)])
async def test_a_run_that_others_get_in_the_way_of_is_run_again(
    store: RecordStore, times: int, wanted: str | None
) -> None:
    """Not for ever, and each time from the start."""
    node = _transfer()
    _begun(store, node)
    host = _host(_Interfering(store, times))  # pyright: ignore[reportArgumentType]
    if wanted is None:
        with pytest.raises(RecordsConflict):
            await host.run(node, GIVEN)
    else:
        assert (await host.run(node, GIVEN)).outputs == {
            "source_balance": "70.00",
            "target_balance": wanted,
        }


async def test_tables_that_are_missing_are_told(tmp_path: Path, schema: str) -> None:
    """With how to make them."""
    for place in (tmp_path / "state.db", url_of(schema)):
        store = open_records(place)
        with pytest.raises(StoreError, match=r"has not the tables of this node: .*--records"):
            await _host(store).run(_transfer(), GIVEN)
        store.close()


async def test_a_row_that_does_not_fit_is_told(schema: str) -> None:
    """It is neither changed nor taken for another."""
    node, store = _transfer(), open_records(url_of(schema))
    _begun(store, node)
    asked(schema, "UPDATE accounts SET owner = repeat('x', 101) WHERE id = 'b' RETURNING id")
    with pytest.raises(StoreError, match=r"a row does not fit the node: accounts\.owner"):
        await _host(store).run(node, GIVEN)
    store.close()


def test_transfers_survive_kills(schema: str) -> None:
    """None is lost or carried out twice, and no sum on the way is wrong."""
    found = play(Round(url_of(schema), 120, accounts=6, kills=4))
    assert found.holds, found
    assert found.killed == 4
    assert found.reads > 0


@pytest.mark.parametrize("fault", ["no lock", "no key"])
def test_a_planted_fault_shows(fault: str, schema: str) -> None:
    """Without the lock money is made or lost; without the key a request counts twice."""
    assert play(Round(url_of(schema), 120, accounts=2, fault=fault)).wrong_accounts


class _SlowKeep(MemoryRecords):
    """A place where the last thing before the end takes a day; it is the clock as well."""

    late = False

    def now(self) -> int:
        return 86_400_000 * self.late

    async def wait_until(self, at_ms: int) -> None: ...

    @contextmanager
    def transaction(self, timeout_s: float) -> Generator[Any]:
        with super().transaction(timeout_s) as records:
            keep = records.keep

            def slowly(node: str, request: str, outcome: str) -> None:
                keep(node, request, outcome)
                self.late = True

            records.keep = slowly  # pyright: ignore[reportAttributeAccessIssue]
            yield records


async def test_what_is_late_at_the_end_is_not_kept() -> None:
    """The last look at the clock is just before the transaction ends."""
    node, slow = _transfer(), _SlowKeep()
    state = _begun(slow, node)
    host = NodeHost(slow, grant=grant_of(["database"]), clock=slow)
    outcome = await host.run(node, GIVEN)
    assert (outcome.status, outcome.reason) == ("trap", "timeout")
    assert _balances(slow, state) == {"a": "100.00", "b": "5.00"}
