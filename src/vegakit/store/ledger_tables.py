"""The tables of a ledger, and its records as their rows, there and back."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from vegakit.policy import Claim, ClaimState, Scope, ScopeRule, SpendWindow
from vegakit.records import from_json, to_json
from vegakit.store.sqlite_file import Format

__all__ = ["CLAIMS", "LEASES", "LEDGER", "SCOPES", "Row", "Table"]

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

Row: TypeAlias = tuple[Any, ...]


@lru_cache(maxsize=1024)
def _rule_of(text: str) -> ScopeRule:
    return from_json(ScopeRule, text)


@lru_cache(maxsize=1024)
def _text_of(rule: ScopeRule) -> str:
    return to_json(rule).decode()


def _scope_row(scope: Scope) -> Row:
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


def _scope_of(row: Row) -> Scope:
    parent, is_part, rule, cap, is_open, settled, reserved, held, spent, window, *counts = row
    window = window and from_json(SpendWindow, window)
    figures = (settled, reserved, held, spent, window, *counts)
    return Scope(_rule_of(rule), cap, parent, bool(is_part), bool(is_open), *figures)


def _claim_row(claim: Claim) -> Row:
    state = claim.state.value
    return claim.scope, claim.holder, claim.amount, state, claim.charged, claim.charged_at_ms


def _claim_of(row: Row) -> Claim:
    scope, holder, amount, state, charged, charged_at_ms = row
    return Claim(scope, holder, amount, ClaimState(state), charged, charged_at_ms)


class Table:
    """Statements and translation of one kind of row; the first columns never change."""

    def __init__(
        self,
        name: str,
        columns: str,
        fixed: int,
        to_row: Callable[[Any], Row],
        from_row: Callable[[Row], Any],
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

    def sealed(self) -> "Table":
        """The same rows in a file, where each has its seal in the last column."""
        return Table(self.name, f"{self._columns} seal", self.fixed, self.to_row, self.from_row)


SCOPES = Table(
    "scopes",
    "parent is_part rule cap is_open settled reserved held spent period alerted_percent children"
    " claims holder",
    2,
    _scope_row,
    _scope_of,
)
CLAIMS = Table(
    "claims", "scope holder amount state charged charged_at_ms", 3, _claim_row, _claim_of
)
LEASES = Table("leases", "until_ms", 0, lambda until_ms: (until_ms,), lambda row: row[0])
