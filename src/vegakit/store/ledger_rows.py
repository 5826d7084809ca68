"""The tables of a ledger, and its rows as a fragment of the pure machine.

The rules are those of `policy.Budget`. An operation loads the few rows its rule looks at, runs
the rule on them, and writes what changed:

    rows.begin()
    rows.load_chain(scope)               the scope and all around it
    rows.budget.scopes.room(scope, now)  the rule
    rows.write()                         notes what differs
    rows.flush()                         inserts, updates and deletes it
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import count, takewhile
from typing import Any, NamedTuple, Protocol, TypeAlias

from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.policy import (
    NO_RULES,
    BlockedCall,
    Budget,
    Claim,
    ClaimState,
    Counter,
    Limit,
    Scope,
    ScopeRule,
    ScopeRules,
)
from vegakit.records import from_json, to_json
from vegakit.store.seals import RowSeals
from vegakit.store.thread import Format

# The tables of a ledger, and its records as their rows, there and back.


LEDGER = Format(
    "ledger",
    5,
    (
        """CREATE TABLE scopes (
            id TEXT PRIMARY KEY, parent TEXT, is_part INTEGER NOT NULL, rule TEXT NOT NULL,
            is_open INTEGER NOT NULL, settled INTEGER NOT NULL,
            reserved INTEGER NOT NULL, held INTEGER NOT NULL, counted_in TEXT NOT NULL,
            children INTEGER NOT NULL, claims INTEGER NOT NULL, holder TEXT, seal BLOB NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX scopes_inside ON scopes (parent)",
        "CREATE INDEX open_parts ON scopes (holder) WHERE is_open AND holder IS NOT NULL",
        """CREATE TABLE claims (
            id TEXT PRIMARY KEY, scope TEXT NOT NULL, holder TEXT NOT NULL,
            amount INTEGER NOT NULL, counted_in TEXT NOT NULL, state TEXT NOT NULL,
            charged INTEGER NOT NULL, charged_at_ms INTEGER NOT NULL, seal BLOB NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX live_claims ON claims (holder) WHERE state = 'sent'",
        """CREATE TABLE counters (
            id TEXT PRIMARY KEY, settled INTEGER NOT NULL, reserved INTEGER NOT NULL,
            seal BLOB NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE limits (
            id TEXT PRIMARY KEY, rules TEXT NOT NULL, version INTEGER NOT NULL,
            seal BLOB NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE leases (
            id TEXT PRIMARY KEY, until_ms INTEGER NOT NULL, seal BLOB NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE waiters (
            id TEXT PRIMARY KEY, waiter TEXT NOT NULL, seal BLOB NOT NULL
        ) WITHOUT ROWID""",
    ),
)
"""A claim's id is `effect#attempt`, a waiter's its effect, a lease's its holder, a counter's its
window and its owner, of which `counted_in` is a list. Each row is sealed."""

SqlRow: TypeAlias = tuple[Any, ...]


@lru_cache(maxsize=1024)
def _rule_of(text: str) -> ScopeRule:
    return from_json(ScopeRule, text)


@lru_cache(maxsize=1024)
def _text_of(rule: ScopeRule) -> str:
    return to_json(rule).decode()


def _scope_row(scope: Scope) -> SqlRow:
    return (
        scope.parent,
        scope.is_part,
        _text_of(scope.rule),
        scope.is_open,
        scope.settled,
        scope.reserved,
        scope.held,
        to_json(scope.counted_in).decode(),
        scope.children,
        scope.claims,
        scope.holder,
    )


def _scope_of(row: SqlRow) -> Scope:
    (parent, is_part, rule, is_open, settled, reserved, held, counted_in, *counts) = row
    return Scope(
        settled,
        reserved,
        rule=_rule_of(rule),
        parent=parent,
        is_part=bool(is_part),
        is_open=bool(is_open),
        held=held,
        counted_in=from_json(list[str], counted_in),
        children=counts[0],
        claims=counts[1],
        holder=counts[2],
    )


def _claim_row(claim: Claim) -> SqlRow:
    return (
        claim.scope,
        claim.holder,
        claim.amount,
        to_json(claim.counted_in).decode(),
        claim.state.value,
        claim.charged,
        claim.charged_at_ms,
    )


def _claim_of(row: SqlRow) -> Claim:
    scope, holder, amount, counted_in, state, *charged = row
    return Claim(
        scope, holder, amount, from_json(list[str], counted_in), ClaimState(state), *charged
    )


class SqlTable:
    """Statements and translation of one kind of row; the first columns never change."""

    def __init__(
        self,
        name: str,
        columns: str,
        fixed: int,
        to_row: Callable[[Any], SqlRow],
        from_row: Callable[[SqlRow], Any],
    ) -> None:
        self.name, self._columns = name, columns
        words = columns.split()
        places = ", ".join("?" for _ in words)
        self.fixed, self.to_row, self.from_row = fixed, to_row, from_row
        self.select = f"SELECT id, {', '.join(words)} FROM {name} WHERE "  # noqa: S608  (our names)
        self.insert = f"INSERT INTO {name} (id, {', '.join(words)}) VALUES (?, {places})"  # noqa: S608
        self.update = f"UPDATE {name} SET {' = ?, '.join(words[fixed:])} = ? WHERE id = ?"  # noqa: S608
        self.delete = f"DELETE FROM {name} WHERE id = ?"  # noqa: S608
        self.statements = self.delete, self.insert, self.update
        self.select_one = f"{self.select}id = ?"

    def begun_by(self, names: str) -> str:
        """Return the statement for all rows whose id is one of `names` and a number behind `#`."""
        columns = f"{self.name}.id, {', '.join(self._columns.split())}"
        within = "id >= wanted.value || '#' AND id < wanted.value || '$'"  # "$" is next after "#"
        return f"SELECT {columns} FROM ({names}) AS wanted CROSS JOIN {self.name} WHERE {within}"  # noqa: S608

    def sealed(self) -> "SqlTable":
        """Return the table of a file, where each row has its seal in the last column."""
        return SqlTable(self.name, f"{self._columns} seal", self.fixed, self.to_row, self.from_row)


SCOPES = SqlTable(
    "scopes",
    "parent is_part rule is_open settled reserved held counted_in children claims holder",
    2,
    _scope_row,
    _scope_of,
)
CLAIMS = SqlTable(
    "claims", "scope holder amount counted_in state charged charged_at_ms", 4, _claim_row, _claim_of
)
COUNTERS = SqlTable(
    "counters",
    "settled reserved",
    0,
    lambda counter: (counter.settled, counter.reserved),
    lambda row: Counter(*row),
)
LIMITS = SqlTable(
    "limits",
    "rules version",
    0,
    lambda limit: (to_json(limit.rules).decode(), limit.version),
    lambda row: Limit(from_json(tuple[ScopeRule, ...], row[0]), row[1]),
)
LEASES = SqlTable("leases", "until_ms", 0, lambda until_ms: (until_ms,), lambda row: row[0])
WAITERS = SqlTable(
    "waiters",
    "waiter",
    0,
    lambda waiter: (to_json(waiter).decode(),),
    lambda row: from_json(BlockedCall, row[0]),
)


# The rows of a ledger as a fragment of the pure machine, and back.
#
# The rules are `policy.Budget`'s and stand nowhere else. An operation loads the few rows that its
# rule will look at, lets the rule run on them, and writes what it changed:
#
# The statements are common to SQLite and PostgreSQL. A row that was read stays good for one
# `version`. On SQLite that is until another process writes to the file, which it tells for almost
# nothing: a process that is alone with its file reads each row once. On PostgreSQL it is one
# transaction, in which each row that is read is locked.


class _Connection(Protocol):
    @property
    def execute(self) -> Callable[..., Any]:
        """The statement and its values; answers a cursor."""
        ...

    @property
    def executemany(self) -> Callable[..., Any]: ...


_OLD = "id > ? AND charged_at_ms < ? AND state <> 'sent' ORDER BY id LIMIT ?"
_OLD_ONES = f"SELECT scope FROM claims WHERE {_OLD}"  # noqa: S608  (our words)
_LEFT_BEHIND = """
    SELECT scope FROM claims WHERE holder = ANY(?) AND state = 'sent'
    UNION
    SELECT id FROM scopes WHERE holder = ANY(?) AND is_open
"""
"""Only PostgreSQL asks it, to lock scopes first."""
_LEASES = "SELECT id, until_ms FROM leases"
_PAGE = 500
"""How many claims are pruned at once, so that nobody waits long for the lock."""
_MOST_KEPT = 5_000


class LockSet(NamedTuple):
    """Names what an operation will look at: claims, with the scopes that their money moves through;
    scopes, with all around them, by name or as a query finds them; leases. A reservation counts in
    the windows of an instant, for these owners and for owners with limits."""

    scopes: tuple[ScopeId | None, ...] = ()
    claims: tuple[str, ...] = ()
    holders: tuple[HolderId, ...] = ()
    query: tuple[str, tuple[object, ...]] | None = None
    owners: tuple[ScopeId, ...] = ()
    numbers_at_ms: int | None = None


def locks_for_expired(ended: Mapping[HolderId, int]) -> LockSet:
    """Return what settling the reservations of these holders touches."""
    holders = tuple(ended)
    return LockSet(holders=holders, query=(_LEFT_BEHIND, ([*holders], [*holders])))


def locks_for_settled(before_ms: int, after: str) -> LockSet:
    """Return what pruning one page of old claims touches."""
    return LockSet(query=(_OLD_ONES, (after, before_ms, _PAGE)))


def claim_id(effect: EffectKey, attempt: int) -> str:
    """Return the key of the row of an attempt."""
    return f"{effect}#{attempt}"


class _TableRows:
    """Rows of one table: as they stand (None: not there), as the rule leaves them, and as they are
    stored while they wait to be flushed. `seals` checks what is read and seals what is written."""

    def __init__(
        self,
        connection: _Connection,
        table: SqlTable,
        records: dict[Any, Any],
        suffix: str,
        seals: RowSeals | None,
    ) -> None:
        self._execute, self._execute_many = connection.execute, connection.executemany
        self._table = table if seals is None else table.sealed()
        self._suffix, self.records, self._seals = suffix, records, seals
        self._read: dict[str, SqlRow | None] = {}
        self._stored: dict[str, SqlRow | None] = {}
        self._touched: set[str] = set()
        self._is_checked = seals is None or table not in (SCOPES, COUNTERS)

    def __len__(self) -> int:
        return len(self._read)

    def clear(self) -> None:
        self.flush()
        self.records.clear()
        self._read.clear()
        self._touched.clear()

    def load(self, id_: str) -> bool:
        """Says whether it is there; the rule may change or make it."""
        self._touched.add(id_)
        if id_ not in self._read:
            found = self._execute(self._table.select_one + self._suffix, (id_,)).fetchall()
            if not found and not self._is_checked:
                self._check_all()
            self.keep(found, [id_])
        return self._read[id_] is not None

    def _check_all(self) -> None:
        """A scope or counter whose name is damaged is not found by it, and would begin anew with
        nothing spent. So the first that is not there has all rows checked, once for an open
        file."""
        assert self._seals is not None
        rows = self._execute(f"{self._table.select}1 = 1").fetchall()
        for _ in self._seals.checked(self._table.name, rows):
            pass
        self._is_checked = True

    def load_where(self, condition: str, *values: object) -> list[str]:
        self.flush()
        rows = self._execute(self._table.select + condition + self._suffix, values).fetchall()
        self._touched.update(row[0] for row in rows)
        self.keep([row for row in rows if self._read.get(row[0]) is None])
        return [row[0] for row in rows]

    def look(self, statement: str, *values: object) -> list[tuple[str, Any]]:
        """Return the current rows by id, without a lock."""
        self.flush()
        rows: Iterable[SqlRow] = self._execute(statement, values).fetchall()
        if self._seals is not None:
            rows = self._seals.checked(self._table.name, rows)
        return [(id_, self._table.from_row(tuple(columns))) for id_, *columns in rows]

    def look_by_name(self, names: str, wanted: Iterable[str]) -> list[tuple[str, Any]]:
        """Return all rows whose id is one of these names and a number behind `#`."""
        return self.look(self._table.begun_by(names), to_json([*wanted]).decode())

    def keep(self, rows: Iterable[SqlRow], sought: Iterable[str] = ()) -> None:
        self._read.update(dict.fromkeys(sought))
        if self._seals is not None:
            rows = self._seals.checked(self._table.name, rows)
        for id_, *columns in rows:
            self._read[id_] = row = tuple(columns)
            self.records[id_] = self._table.from_row(row)

    def write(self) -> None:
        for id_ in self._touched:
            read = self._read.get(id_)
            row = self._table.to_row(self.records[id_]) if id_ in self.records else None
            if row != read:
                self._stored.setdefault(id_, read)
                self._read[id_] = row
        self._touched.clear()

    def flush(self) -> None:
        """However often a row was written since the last time, it is one statement."""
        if not self._stored:
            return
        gone: list[SqlRow] = []
        made: list[SqlRow] = []
        changed: list[SqlRow] = []
        fixed = self._table.fixed
        for id_, stored in self._stored.items():
            row = self._read[id_]
            replaced = bool(row and stored and row[:fixed] != stored[:fixed])
            if stored and (row is None or replaced):
                gone.append((id_,))
            if row is None or row == stored:
                continue
            seal = () if self._seals is None else (self._seals.of(self._table.name, (id_, *row)),)
            if stored is None or replaced:
                made.append((id_, *row, *seal))
            else:
                changed.append((*row[fixed:], *seal, id_))
        self._stored.clear()
        for statement, rows in zip(self._table.statements, (gone, made, changed), strict=True):
            if rows:
                self._execute_many(statement, rows)


def _from_the_first(attempts: Mapping[int, Claim]) -> tuple[Claim, ...]:
    numbers = takewhile(attempts.__contains__, count(1))
    return tuple(attempts[number] for number in numbers)


class LedgerRows:
    """The rows of a ledger that an operation looks at, as a fragment of the pure machine. `names`
    is the statement by which this database reads a list of texts in JSON."""

    names = "SELECT value FROM json_each(?)"

    def __init__(
        self,
        connection: _Connection,
        version: Callable[[], int],
        suffix: str = "",
        seals: RowSeals | None = None,
    ) -> None:
        """The suffix ends every statement that reads."""
        self.budget = Budget()
        self._scopes = _TableRows(connection, SCOPES, self.budget.scopes.by_id, suffix, seals)
        self._claims = _TableRows(connection, CLAIMS, self.budget.claims, suffix, seals)
        self._leases = _TableRows(connection, LEASES, self.budget.leases, suffix, seals)
        scopes = self.budget.scopes
        self._counters = _TableRows(connection, COUNTERS, scopes.counters, suffix, seals)
        # Read without a lock: every reservation reads all limits, and few are changed; each waiter
        # is changed by its own process, and looks again soon.
        self._limits = _TableRows(connection, LIMITS, scopes.limits, "", seals)
        self._waiters = _TableRows(connection, WAITERS, self.budget.waiters, "", seals)
        self._tables = (
            self._scopes,
            self._counters,
            self._claims,
            self._leases,
            self._limits,
            self._waiters,
        )
        self._knows_limits = False
        self._execute, self._version = connection.execute, version
        self._begun: int | None = None
        self._good_for: int | None = None

    def begin(self) -> None:
        """Inside a transaction. What an operation that failed has left is not kept either."""
        version = self._version()
        if self._good_for != version or sum(map(len, self._tables)) > _MOST_KEPT:
            self.clear()
        self._begun, self._good_for = version, None

    def write(self) -> None:
        """Note what the rule has changed, to be flushed."""
        for table in self._tables:
            table.write()
        self._good_for = self._begun

    def flush(self) -> None:
        """Write what was noted, before the transaction ends: however often a scope was moved, it is
        one statement."""
        for table in self._tables:
            table.flush()

    def good(self) -> None:
        """Keep what was read since the last `clear` for this transaction: it is locked, so it is
        how it stands."""
        self._good_for = self._version()

    def clear(self) -> None:
        """Write what was noted and forget what was read."""
        for table in self._tables:
            table.clear()
        self._knows_limits = False

    def load_chain(self, scope_id: ScopeId | None) -> None:
        """Load the scope and every scope around it, with the counters in which parts count."""
        while scope_id is not None and self._scopes.load(scope_id):
            scope = self.budget.scopes.by_id[scope_id]
            self.load_counters(scope.counted_in)
            scope_id = scope.parent

    def load_counters(self, names: Iterable[str]) -> None:
        """Load these counters."""
        for name in names:
            self._counters.load(name)

    def load_limits(self, *changing: ScopeId) -> None:
        """Load the limits of all owners, which are few; some are to be changed."""
        if not self._knows_limits:
            self._limits.load_where("1 = 1")
            self._knows_limits = True
        for owner in changing:
            self._limits.load(owner)

    def load_bounds(self, scope_id: ScopeId | None, now: int, rules: ScopeRules = NO_RULES) -> None:
        """Load what a reservation in a scope is held against, and counts in."""
        self.load_chain(scope_id)
        if scope_id is not None and scope_id in self.budget.scopes.by_id:
            self.load_limits()
            self.load_counters(self.budget.scopes.counted_in(scope_id, now, rules))

    def load_inside(self, scope_id: ScopeId) -> None:
        """Load every scope inside it."""
        for inner in map(ScopeId, self._scopes.load_where("parent = ?", scope_id)):
            self.load_chain(inner)
            self.load_inside(inner)

    def load_claim(self, effect: EffectKey, attempt: int) -> Claim | None:
        """Load the claim of an attempt and return it; None if there is none."""
        self._claims.load(claim_id(effect, attempt))
        return self.budget.claims.get(claim_id(effect, attempt))

    def all_claims(self, effects: Iterable[EffectKey]) -> dict[EffectKey, tuple[Claim, ...]]:
        """Return the claims of all attempts at these effects, in order, without a lock."""
        attempts_of: dict[EffectKey, dict[int, Claim]] = {}
        for id_, claim in self._claims.look_by_name(self.names, effects):
            effect, _, attempt = id_.rpartition("#")
            attempts_of.setdefault(EffectKey(effect), {})[int(attempt)] = claim
        # Of one whose first attempt is forgotten nothing is told, as of one that never was.
        in_order = {key: _from_the_first(attempts) for key, attempts in attempts_of.items()}
        return {key: claims for key, claims in in_order.items() if claims}

    def load_settling(self, effect: EffectKey, attempt: int) -> None:
        """Load the claim, and the scopes that its money moves through."""
        claim = self.load_claim(effect, attempt)
        if claim is not None:
            self.load_chain(claim.scope)
            self.load_counters(claim.counted_in)

    def load_attempts(self, effects: Iterable[EffectKey]) -> None:
        """Load the claims of all attempts at these effects, and the scopes that they reserve in."""
        for effect in effects:
            for attempt in count(1):
                if self.load_claim(effect, attempt) is None:
                    break
                self.load_settling(effect, attempt)

    def load_waiters(self, changing: EffectKey) -> None:
        """Load all waiters, which are few, and the counters of the caps that they have to fit; one
        is to be changed."""
        self._waiters.load_where("1 = 1")
        self._waiters.load(changing)
        for name in {name for waiter in self.budget.waiters.values() for name in waiter.caps}:
            self._counters.load(name)
            if name.startswith("total "):
                self._scopes.load(name.partition(" ")[2])

    def load_lease(self, holder: HolderId) -> None:
        """Load the lease of a holder."""
        self._leases.load(holder)

    def load_leases(self) -> dict[HolderId, int]:
        """Return all leases as they stand, to be looked at only: nothing is locked or kept."""
        self.flush()
        return {HolderId(id_): until_ms for id_, until_ms in self._execute(_LEASES).fetchall()}

    def load_dead(self, ended: Mapping[HolderId, int]) -> None:
        """Load these leases, and what their holders left behind."""
        self._waiters.load_where("1 = 1")
        for holder in sorted(ended):
            self.load_lease(holder)
            for id_ in self._load_claims("holder = ? AND state = 'sent'", holder):
                self.load_counters(self.budget.claims[id_].counted_in)
            for part in self._scopes.load_where("holder = ? AND is_open", holder):
                self.load_chain(ScopeId(part))
                self.load_inside(ScopeId(part))

    def load_settled(self, before_ms: int, after: str) -> str | None:
        """Load a page of what was settled before then, and nothing else; return where the next one
        begins."""
        self.clear()
        found = self._load_claims(_OLD, after, before_ms, _PAGE)
        return found[-1] if len(found) == _PAGE else None

    def _load_claims(self, condition: str, *values: object) -> list[str]:
        found = self._claims.load_where(condition, *values)
        for scope_id in {self.budget.claims[id_].scope for id_ in found}:
            self.load_chain(scope_id)
        return found
