"""The rows of a ledger as a fragment of the pure machine, and back.

The rules are `policy.Budget`'s and stand nowhere else. An operation loads the few rows that its
rule will look at, lets the rule run on them, and writes what it changed:

    rows.begin()
    rows.load_chain(scope)               the scope and all around it
    rows.budget.scopes.room(scope, now)  the rule
    rows.write()                         inserts, updates and deletes what differs

A row that was read stays good until another process writes to the file, which SQLite tells for
almost nothing (`data_version`): a process that is alone with its file reads each row once.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.policy import Budget, Claim, ClaimState, Scope, ScopeRule, SpendWindow
from vegakit.records import from_json, to_json
from vegakit.store.sqlite_file import Format

if TYPE_CHECKING:
    import sqlite3

__all__ = ["LEDGER", "Rows"]

_OPEN_PARTS = "CREATE INDEX open_parts ON scopes (holder) WHERE is_open AND holder IS NOT NULL"

LEDGER = Format(
    "ledger",
    2,
    (
        """CREATE TABLE scopes (
            id TEXT PRIMARY KEY, parent TEXT, is_part INTEGER NOT NULL, rule TEXT NOT NULL,
            cap INTEGER, is_open INTEGER NOT NULL, settled INTEGER NOT NULL,
            reserved INTEGER NOT NULL, held INTEGER NOT NULL, spent INTEGER NOT NULL, period TEXT,
            alerted_percent INTEGER NOT NULL, children INTEGER NOT NULL, claims INTEGER NOT NULL,
            holder TEXT
        ) WITHOUT ROWID""",
        "CREATE INDEX scopes_inside ON scopes (parent)",
        _OPEN_PARTS,
        """CREATE TABLE claims (
            id TEXT PRIMARY KEY, scope TEXT NOT NULL, holder TEXT NOT NULL,
            amount INTEGER NOT NULL, state TEXT NOT NULL, charged INTEGER NOT NULL,
            charged_at_ms INTEGER NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX live_claims ON claims (holder) WHERE state IN ('reserved', 'sent')",
        "CREATE TABLE leases (id TEXT PRIMARY KEY, until_ms INTEGER NOT NULL) WITHOUT ROWID",
    ),
    upgrades={1: ("ALTER TABLE scopes ADD COLUMN holder TEXT", _OPEN_PARTS)},
)
"""A claim's id is `effect#attempt`, a lease's its holder; a scope's `period` is its window."""

_Row: TypeAlias = tuple[Any, ...]

_PAGE = 500
"""How many claims are pruned at once, so that nobody waits long for the lock."""
_MOST_KEPT = 5_000


@lru_cache(maxsize=1024)
def _rule_of(text: str) -> ScopeRule:
    return from_json(ScopeRule, text)


@lru_cache(maxsize=1024)
def _text_of(rule: ScopeRule) -> str:
    return to_json(rule).decode()


def _scope_row(scope: Scope) -> _Row:
    return (
        scope.parent,
        int(scope.is_part),
        _text_of(scope.rule),
        scope.cap,
        int(scope.is_open),
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


def _scope_of(row: _Row) -> Scope:
    parent, is_part, rule, cap, is_open, settled, reserved, held, spent, window, *counts = row
    window = window and from_json(SpendWindow, window)
    figures = (settled, reserved, held, spent, window, *counts)
    return Scope(_rule_of(rule), cap, parent, bool(is_part), bool(is_open), *figures)


def _claim_row(claim: Claim) -> _Row:
    state = claim.state.value
    return claim.scope, claim.holder, claim.amount, state, claim.charged, claim.charged_at_ms


def _claim_of(row: _Row) -> Claim:
    scope, holder, amount, state, charged, charged_at_ms = row
    return Claim(scope, holder, amount, ClaimState(state), charged, charged_at_ms)


class _Table:
    """Statements and translation of one kind of row; the first columns never change."""

    def __init__(
        self,
        name: str,
        columns: str,
        fixed: int,
        to_row: Callable[[Any], _Row],
        from_row: Callable[[_Row], Any],
    ) -> None:
        words = columns.split()
        places = ", ".join("?" for _ in words)
        self.fixed, self.to_row, self.from_row = fixed, to_row, from_row
        self.select = f"SELECT id, {', '.join(words)} FROM {name} WHERE "  # noqa: S608  (our names)
        self.insert = f"INSERT INTO {name} (id, {', '.join(words)}) VALUES (?, {places})"  # noqa: S608
        self.update = f"UPDATE {name} SET {' = ?, '.join(words[fixed:])} = ? WHERE id = ?"  # noqa: S608
        self.delete = f"DELETE FROM {name} WHERE id = ?"  # noqa: S608
        self.select_one = f"{self.select}id = ?"


_SCOPES = _Table(
    "scopes",
    "parent is_part rule cap is_open settled reserved held spent period alerted_percent children"
    " claims holder",
    2,
    _scope_row,
    _scope_of,
)
_CLAIMS = _Table(
    "claims", "scope holder amount state charged charged_at_ms", 3, _claim_row, _claim_of
)
_LEASES = _Table("leases", "until_ms", 0, lambda until_ms: (until_ms,), lambda row: row[0])


class _Part:
    """Rows of one table: as they stand in the file, and as the rule leaves them."""

    def __init__(
        self, connection: "sqlite3.Connection", table: _Table, records: dict[Any, Any]
    ) -> None:
        self._execute, self._table = connection.execute, table
        self.records, self._read, self._touched = records, dict[str, _Row](), set[str]()

    def __len__(self) -> int:
        return len(self._read)

    def clear(self) -> None:
        self.records.clear()
        self._read.clear()
        self._touched.clear()

    def load(self, id_: str) -> bool:
        """Says whether it is there; the rule may change or make it."""
        self._touched.add(id_)
        if id_ not in self._read:
            row = self._execute(self._table.select_one, (id_,)).fetchone()
            if row is not None:
                self._keep(row)
        return id_ in self._read

    def load_where(self, condition: str, *values: object) -> list[str]:
        rows = self._execute(self._table.select + condition, values).fetchall()
        for row in rows:
            self._touched.add(row[0])
            if row[0] not in self._read:
                self._keep(row)
        return [row[0] for row in rows]

    def _keep(self, row: _Row) -> None:
        self._read[row[0]] = row[1:]
        self.records[row[0]] = self._table.from_row(row[1:])

    def write(self) -> None:
        table = self._table
        for id_ in self._touched:
            read = self._read.pop(id_, None)
            if id_ not in self.records:
                if read is not None:
                    self._execute(table.delete, (id_,))
                continue
            row = self._read[id_] = table.to_row(self.records[id_])
            if read is None:
                self._execute(table.insert, (id_, *row))
            elif row != read:
                self._execute(table.update, (*row[table.fixed :], id_))
        self._touched.clear()


class Rows:
    def __init__(self, connection: "sqlite3.Connection") -> None:
        self.budget = Budget()
        self._scopes = _Part(connection, _SCOPES, self.budget.scopes.by_id)
        self._claims = _Part(connection, _CLAIMS, self.budget.claims)
        self._leases = _Part(connection, _LEASES, self.budget.leases)
        self._execute = connection.execute
        self._begun: int | None = None
        self._good_for: int | None = None

    def begin(self) -> None:
        """Inside a transaction. What an operation that failed has left is not kept either."""
        version = self._execute("PRAGMA data_version").fetchone()[0]
        if self._good_for != version or len(self._claims) + len(self._scopes) > _MOST_KEPT:
            self._clear()
        self._begun, self._good_for = version, None

    def write(self) -> None:
        self._scopes.write()
        self._claims.write()
        self._leases.write()
        self._good_for = self._begun

    def _clear(self) -> None:
        self._scopes.clear()
        self._claims.clear()
        self._leases.clear()

    def load_chain(self, scope_id: ScopeId | None) -> None:
        """The scope and every scope around it."""
        while scope_id is not None and self._scopes.load(scope_id):
            scope_id = self.budget.scopes.by_id[scope_id].parent

    def load_inside(self, scope_id: ScopeId) -> None:
        """Every scope inside it."""
        for inner in self._scopes.load_where("parent = ?", scope_id):
            self.load_inside(ScopeId(inner))

    def load_claim(self, effect: EffectKey, attempt: int) -> Claim | None:
        self._claims.load(f"{effect}#{attempt}")
        return self.budget.claim(effect, attempt)

    def load_settling(self, effect: EffectKey, attempt: int) -> None:
        """The claim, and the scopes that its money moves through."""
        claim = self.load_claim(effect, attempt)
        self.load_chain(claim and claim.scope)

    def load_lease(self, holder: HolderId) -> None:
        self._leases.load(holder)

    def load_dead(self, now: int) -> None:
        """Leases that have ended, and what their holders left behind."""
        for holder in self._leases.load_where("until_ms <= ?", now):
            self._load_claims("holder = ? AND state IN ('reserved', 'sent')", holder)
            for part in self._scopes.load_where("holder = ? AND is_open", holder):
                self.load_chain(ScopeId(part))
                self.load_inside(ScopeId(part))

    def load_settled(self, before_ms: int, after: str) -> str | None:
        """A page of what was settled before then, and nothing else; answers where the next one
        begins."""
        self._clear()
        old = "charged_at_ms < ? AND state NOT IN ('reserved', 'sent')"
        found = self._load_claims(f"id > ? AND {old} ORDER BY id LIMIT ?", after, before_ms, _PAGE)
        return found[-1] if len(found) == _PAGE else None

    def _load_claims(self, condition: str, *values: object) -> list[str]:
        found = self._claims.load_where(condition, *values)
        for scope_id in {self.budget.claims[id_].scope for id_ in found}:
            self.load_chain(scope_id)
        return found
