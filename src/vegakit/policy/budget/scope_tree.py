"""Budget scopes as a tree, and how money moves through it.

A call must fit every scope around it, at the instant it is admitted:

    settled + reserved + worst case  <=  cap

A *part* is a child whose cap was set aside in its parent when it opened: calls inside it are
admitted by the part alone, and what it leaves unspent goes back when it closes. Any other child is
only a limit: calls inside it draw on every scope around it.

    root $10          reserved  5 + 2      the part, and the call below the limit
    ├── part $5       reserved  3          its calls do not ask the root again
    └── limit $4      reserved  2          its calls are reserved here and in the root

A blocking refusal anywhere outweighs a scope that would ask: nobody is asked in vain.
"""

from msgspec import Struct, field

from vegakit.errors import BugError, InvalidRuleError
from vegakit.ids import HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy.budget.scopes import (
    BINDING,
    MustAsk,
    Notice,
    Reserved,
    Scope,
    ScopeAdmission,
    ScopeClosed,
    ScopeRule,
    Short,
    check_amount,
)
from vegakit.policy.budget.spend_window import SpendWindow

__all__ = ["ScopeTree"]

_RESERVED = Reserved()


class ScopeTree(Struct):
    by_id: dict[ScopeId, Scope] = field(default_factory=dict)

    def open(
        self,
        scope_id: ScopeId,
        rule: ScopeRule,
        now: int,
        *,
        parent: ScopeId | None = None,
        part: bool = False,
        holder: HolderId | None = None,
    ) -> ScopeAdmission:
        """A part is admitted like a call; any other scope always opens."""
        if scope_id in self.by_id:
            raise BugError(f"budget scope {scope_id!r} is already open")
        if part:
            _check_part(rule, parent)
        elif parent is not None and not self.by_id[parent].is_open:
            return ScopeClosed(parent)
        window = SpendWindow(rule.window) if rule.window else None
        scope = Scope(rule, rule.cap, parent, part, window=window, holder=holder)
        verdict: ScopeAdmission = _RESERVED
        if part and parent is not None and rule.cap is not None:
            verdict = self.admit(parent, rule.cap, now)
            scope.held = rule.cap
        if isinstance(verdict, Reserved):
            self.by_id[scope_id] = scope
            if parent is not None:
                self.by_id[parent].children += 1
        return verdict

    def ensure(
        self,
        scope_id: ScopeId,
        rule: ScopeRule,
        now: int,
        *,
        parent: ScopeId | None = None,
        part: bool = False,
        holder: HolderId | None = None,
    ) -> ScopeAdmission:
        """Opens it, or declares it anew if it is there; a part is opened once."""
        scope = self.by_id.get(scope_id)
        if scope is None or part:
            return self.open(scope_id, rule, now, parent=parent, part=part, holder=holder)
        if scope.is_part or scope.parent != parent:
            raise BugError(
                f"budget scope {scope_id!r} stands in {scope.parent!r}"
                f"{' as a part' if scope.is_part else ''} and was declared in {parent!r}"
            )
        if not scope.is_open:
            return ScopeClosed(scope_id)
        self.declare(scope_id, rule, now)
        return _RESERVED

    def declare(self, scope_id: ScopeId, rule: ScopeRule, now: int = 0) -> None:
        """Gives a scope that is there another rule; what it has spent stays.

        It counts in the first window of another period, and all of it where the period ends.
        """
        scope = self.by_id[scope_id]
        if rule.window != scope.rule.window:
            scope.window = SpendWindow(rule.window) if rule.window else None
            if scope.window is None:
                scope.settled = scope.spent
            elif scope.settled:
                scope.window.roll(now)
                scope.window.add(scope.settled, now)
        scope.rule, scope.cap = rule, rule.cap

    def close(self, scope_id: ScopeId, now: int) -> None:
        """Admits nothing more, here and below; an unspent part goes back to its parent."""
        scope = self.by_id[scope_id]
        if scope.children:
            for child_id in [i for i, s in self.by_id.items() if s.parent == scope_id]:
                self.close(child_id, now)
        if scope.is_open:
            scope.is_open = False
            self.move(scope_id, 0, 0, now, now)

    def close_parts_of(self, holders: set[HolderId], now: int) -> None:
        for scope_id in [i for i, scope in self.by_id.items() if scope.holder in holders]:
            self.close(scope_id, now)

    def drop(self, scope_id: ScopeId) -> bool:
        """Forgets a closed scope that nothing refers to any more."""
        scope = self.by_id[scope_id]
        if scope.is_open or scope.children or scope.claims:
            return False
        del self.by_id[scope_id]
        if scope.parent is not None:
            self.by_id[scope.parent].children -= 1
        return True

    def drop_outward(self, scope_id: ScopeId) -> None:
        """Drops it if nothing refers to it, then the scope around it, and so on."""
        scope = self.by_id.get(scope_id)
        if scope is not None and self.drop(scope_id) and scope.parent is not None:
            self.drop_outward(scope.parent)

    def set_cap(self, scope_id: ScopeId, cap: Money, now: int) -> ScopeAdmission:
        """Raises or lowers it; a part that grows takes the difference from its parent."""
        check_amount(cap)
        scope = self.by_id[scope_id]
        if scope.is_part and scope.is_open and scope.parent is not None:
            more = max(cap - scope.settled, scope.reserved) - scope.held
            if more > 0:
                verdict = self.admit(scope.parent, more, now)
                if not isinstance(verdict, Reserved):
                    return verdict
                scope.held += more
        scope.cap = cap
        self.move(scope_id, 0, 0, now, now)
        return _RESERVED

    def room(self, scope_id: ScopeId, now: int) -> Money | None:
        """The largest call that would be admitted now; None where nothing limits it."""
        room: int | None = None
        for _, scope in self._admitting(scope_id):
            scope.roll(now)
            if scope.cap is not None and scope.rule.on_exceed in BINDING:
                left = max(0, scope.cap - scope.used)
                room = left if room is None else min(room, left)
        return None if room is None else Money(room)

    def _admitting(self, scope_id: ScopeId | None) -> list[tuple[ScopeId, Scope]]:
        """The scopes that a call in this one draws on: outward up to the nearest part."""
        chain: list[tuple[ScopeId, Scope]] = []
        while scope_id is not None:
            scope = self.by_id[scope_id]
            chain.append((scope_id, scope))
            scope_id = None if scope.is_part else scope.parent
        return chain

    def admit(self, scope_id: ScopeId, amount: int, now: int) -> ScopeAdmission:
        chain = self._admitting(scope_id)
        ask: MustAsk | None = None
        notices: tuple[Notice, ...] = ()
        for here, scope in chain:
            if not scope.is_open:
                return ScopeClosed(here)
            if not scope.fits(amount, now):
                refusal = scope.short(here, amount)
                if isinstance(refusal, Short):
                    return refusal
                ask = ask or refusal
                notices += scope.crossing(here, scope.used + amount)
        if ask is not None:
            return ask
        for _, scope in chain:
            scope.reserved += amount
        return Reserved(notices) if notices else _RESERVED

    def move(
        self, scope_id: ScopeId, released: int, charged: int, at: int, now: int
    ) -> tuple[Notice, ...]:
        """Lets go of `released` and charges `charged`, here and in every scope around.

        A part passes on to its parent what it no longer needs held, which keeps the parent's sum.
        """
        notices: tuple[Notice, ...] = ()
        outward: ScopeId | None = scope_id
        while outward is not None:
            scope = self.by_id[outward]
            if charged > released:
                scope.roll(now)
                notices += scope.crossing(outward, scope.used + charged - released)
            scope.move(released, charged, at, now)
            if scope.rule.alert_percents:
                notices += scope.alerts(outward)
            if scope.is_part:
                still_held = scope.must_hold()
                released = scope.held - still_held
                scope.held = still_held
            outward = scope.parent
        return notices


def _check_part(rule: ScopeRule, parent: ScopeId | None) -> None:
    sound = rule.cap is not None and rule.window is None and parent is not None
    if not sound or rule.on_exceed not in BINDING:
        raise InvalidRuleError(
            "a part has a parent, a cap, no period, and blocks or asks when it is exceeded, "
            "because its parent sets exactly its cap aside"
        )
