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
from typing import Any, NamedTuple, Protocol, TypeAlias

from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.policy import Budget, Claim, ClaimState, Scope, ScopeRule, SpendWindow
from vegakit.records import from_json, to_json
from vegakit.store.seals import RowSeals
from vegakit.store.thread import Format

# The tables of a ledger, and its records as their rows, there and back.


LEDGER = Format(
    "ledger",
    3,
    (
        """CREATE TABLE scopes (
            id TEXT PRIMARY KEY, parent TEXT, is_part INTEGER NOT NULL, rule TEXT NOT NULL,
            cap INTEGER, is_open INTEGER NOT NULL, settled INTEGER NOT NULL,
            reserved INTEGER NOT NULL, held INTEGER NOT NULL, spent INTEGER NOT NULL, period TEXT,
            alerted_percent INTEGER NOT NULL, children INTEGER NOT NULL, claims INTEGER NOT NULL,
            holder TEXT, seal BLOB NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX scopes_inside ON scopes (parent)",
        "CREATE INDEX open_parts ON scopes (holder) WHERE is_open AND holder IS NOT NULL",
        """CREATE TABLE claims (
            id TEXT PRIMARY KEY, scope TEXT NOT NULL, holder TEXT NOT NULL,
            amount INTEGER NOT NULL, state TEXT NOT NULL, charged INTEGER NOT NULL,
            charged_at_ms INTEGER NOT NULL, seal BLOB NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX live_claims ON claims (holder) WHERE state IN ('reserved', 'sent')",
        """CREATE TABLE leases (
            id TEXT PRIMARY KEY, until_ms INTEGER NOT NULL, seal BLOB NOT NULL
        ) WITHOUT ROWID""",
    ),
)
"""A claim's id is `effect#attempt`, a lease's its holder; a scope's `period` is its window. Each
row carries the seal of its other columns."""

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
        scope.cap,
        scope.is_open,
        scope.settled,
        scope.reserved,
        scope.held,
        scope.spent,
        scope.window and to_json(scope.window).decode(),
        scope.alerted_percent,
        scope.children,
        scope.claims,
        scope.holder,
    )


def _scope_of(row: SqlRow) -> Scope:
    parent, is_part, rule, cap, is_open, settled, reserved, held, spent, window, *counts = row
    window = window and from_json(SpendWindow, window)
    figures = (settled, reserved, held, spent, window, *counts)
    return Scope(_rule_of(rule), cap, parent, bool(is_part), bool(is_open), *figures)


def _claim_row(claim: Claim) -> SqlRow:
    state = claim.state.value
    return claim.scope, claim.holder, claim.amount, state, claim.charged, claim.charged_at_ms


def _claim_of(row: SqlRow) -> Claim:
    scope, holder, amount, state, charged, charged_at_ms = row
    return Claim(scope, holder, amount, ClaimState(state), charged, charged_at_ms)


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

    def sealed(self) -> "SqlTable":
        """Return the table of a file, where each row has its seal in the last column."""
        return SqlTable(self.name, f"{self._columns} seal", self.fixed, self.to_row, self.from_row)


SCOPES = SqlTable(
    "scopes",
    "parent is_part rule cap is_open settled reserved held spent period alerted_percent children"
    " claims holder",
    2,
    _scope_row,
    _scope_of,
)
CLAIMS = SqlTable(
    "claims", "scope holder amount state charged charged_at_ms", 3, _claim_row, _claim_of
)
LEASES = SqlTable("leases", "until_ms", 0, lambda until_ms: (until_ms,), lambda row: row[0])


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


_OLD = "id > ? AND charged_at_ms < ? AND state NOT IN ('reserved', 'sent') ORDER BY id LIMIT ?"
_OLD_ONES = f"SELECT scope FROM claims WHERE {_OLD}"  # noqa: S608  (our words)
_LEFT_BEHIND = """
    SELECT scope FROM claims WHERE holder = ANY(?) AND state IN ('reserved', 'sent')
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
    scopes, with all around them, by name or as a query finds them; leases."""

    scopes: tuple[ScopeId | None, ...] = ()
    claims: tuple[str, ...] = ()
    holders: tuple[HolderId, ...] = ()
    query: tuple[str, tuple[object, ...]] | None = None


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
        self._is_checked = seals is None or table is not SCOPES

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
        """A scope whose name is damaged is not found by it, and would begin anew with nothing
        spent. So the first that is not there has all rows checked, once for an open file."""
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


class LedgerRows:
    """The rows of a ledger that an operation looks at, as a fragment of the pure machine."""

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
        self._execute, self._version = connection.execute, version
        self._begun: int | None = None
        self._good_for: int | None = None

    def begin(self) -> None:
        """Inside a transaction. What an operation that failed has left is not kept either."""
        version = self._version()
        if self._good_for != version or len(self._claims) + len(self._scopes) > _MOST_KEPT:
            self.clear()
        self._begun, self._good_for = version, None

    def write(self) -> None:
        """Note what the rule has changed, to be flushed."""
        self._scopes.write()
        self._claims.write()
        self._leases.write()
        self._good_for = self._begun

    def flush(self) -> None:
        """Write what was noted, before the transaction ends: however often a scope was moved, it is
        one statement."""
        self._scopes.flush()
        self._claims.flush()
        self._leases.flush()

    def good(self) -> None:
        """Keep what was read since the last `clear` for this transaction: it is locked, so it is
        how it stands."""
        self._good_for = self._version()

    def clear(self) -> None:
        """Write what was noted and forget what was read."""
        self._scopes.clear()
        self._claims.clear()
        self._leases.clear()

    def load_chain(self, scope_id: ScopeId | None) -> None:
        """Load the scope and every scope around it, with those in which these count, too."""
        while scope_id is not None and self._scopes.load(scope_id):
            scope = self.budget.scopes.by_id[scope_id]
            if scope.rule.also is not None:
                self._scopes.load(scope.rule.also)
            scope_id = scope.parent

    def load_inside(self, scope_id: ScopeId) -> None:
        """Load every scope inside it."""
        for inner in map(ScopeId, self._scopes.load_where("parent = ?", scope_id)):
            self.load_chain(inner)
            self.load_inside(inner)

    def load_claim(self, effect: EffectKey, attempt: int) -> Claim | None:
        """Load the claim of an attempt and return it; None if there is none."""
        self._claims.load(claim_id(effect, attempt))
        return self.budget.claim(effect, attempt)

    def load_settling(self, effect: EffectKey, attempt: int) -> None:
        """Load the claim, and the scopes that its money moves through."""
        claim = self.load_claim(effect, attempt)
        self.load_chain(claim and claim.scope)

    def load_lease(self, holder: HolderId) -> None:
        """Load the lease of a holder."""
        self._leases.load(holder)

    def load_leases(self) -> dict[HolderId, int]:
        """Return all leases as they stand, to be looked at only: nothing is locked or kept."""
        self.flush()
        return {HolderId(id_): until_ms for id_, until_ms in self._execute(_LEASES).fetchall()}

    def load_dead(self, ended: Mapping[HolderId, int]) -> None:
        """Load these leases, and what their holders left behind."""
        for holder in sorted(ended):
            self.load_lease(holder)
            self._load_claims("holder = ? AND state IN ('reserved', 'sent')", holder)
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
