"""Budget scopes of a runtime, the lease that keeps what it has reserved on the ledger, and what is
said when a call does not fit."""

import asyncio
import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec import structs

from vegakit.conversation import ModelRequest
from vegakit.effects import SharedBudget
from vegakit.errors import BudgetExceeded, BugError, InvalidRuleError, Paused, did_you_mean
from vegakit.ids import EffectKey, HolderId, ProgramId, ScopeId
from vegakit.money import Allowance, Money, Period, dollars, format_money, parse_allowance
from vegakit.policy import (
    BINDING,
    EVERYBODY,
    LEASE_MS,
    Admission,
    InsufficientBudget,
    LeaseWatch,
    NeedsHigherCap,
    OnExceed,
    Reserved,
    ScopeClosed,
    ScopeRule,
    ScopeRules,
)
from vegakit.ports import Clock, Ledger, Model
from vegakit.prices import PriceRow

# The budget scopes of a runtime: its own cap, and the caps of blocks inside it.
#
#     runtime:NAME      one for each run in a journal, unless it has a period; else shared by every
#     │                 runtime of this name on the same ledger
#     └── $1/day        `with rt.budget("$1/day")`, opened when it is first needed
#
# Beside these a call counts for owners that all runs share, which may refuse it, too:
#
#     agent:NAME/A      `budget $5/day` of an agent
#     user              the budget of the user's own settings, if it has a period. In a ledger that
#                       the user has alone it is a limit, which the ledger applies to every run; on
#                       a server it is brought along, as the caps of agents are.
#
# What several runtimes share only counts; what may be spent is for each runtime to say. So each
# call brings the rules that this runtime printed, and the ledger holds it against these.
#
# What one ask may spend is a part of a wallet, which the program keeps.


def rule_of(
    allowance: str | float | ScopeRule | None, on_exceed: str = OnExceed.BLOCK
) -> ScopeRule:
    """Return the rule of `"$5"`, `5` or `"$5/day"`; None counts and limits nothing."""
    if isinstance(allowance, ScopeRule):
        return allowance
    if allowance is None:
        return ScopeRule(None)
    limit = (
        parse_allowance(allowance) if isinstance(allowance, str) else Allowance(dollars(allowance))
    )
    if on_exceed not in {*OnExceed}:
        known = did_you_mean(on_exceed, OnExceed)
        raise InvalidRuleError(f"there is no on_exceed {on_exceed!r}; {known}")
    return ScopeRule(limit.amount, OnExceed(on_exceed), limit.period)


def cap_of(budget: str | float | None) -> Money | None:
    """Return what one ask of an agent with this `budget` may spend; one with a period does not say
    that."""
    rule = rule_of(budget)
    return None if rule.period else rule.cap


def shared_budget_of(name: str, budget: str | float | None, on_exceed: str) -> SharedBudget | None:
    """Return what all asks of an agent may spend in each period, if its `budget` has one."""
    rule = rule_of(budget)
    if rule.period is None or rule.cap is None:
        return None
    return SharedBudget(name, rule.cap, rule.period, on_exceed)


def place_of(root: Path, program: str) -> str:
    """Return what tells the agents of a program of a project from others of the same name. It says
    no more of where the project lies: several machines share a ledger."""
    return f"{root.name}/{program}"


def scope_of_agent(runtime: str, name: str) -> ScopeId:
    """Return the owner of an agent's counters, for all runs of the runtimes of this name."""
    return ScopeId(f"agent:{runtime}/{name}")


def _rule_of(budget: SharedBudget) -> ScopeRule:
    """One that warns is told of when all of it is spent, once in each period."""
    word = OnExceed(budget.on_exceed)
    alerts = (100,) if word is OnExceed.WARN else ()
    return ScopeRule(budget.cap, word, budget.period, alerts)


class BudgetFigures(NamedTuple):
    """The figures that a rule limits now; `ever` is the spending of its scope over all time."""

    rule: ScopeRule
    settled: Money
    reserved: Money
    ever: Money

    @property
    def used(self) -> Money:
        """Return what is settled and reserved."""
        return Money(self.settled + self.reserved)


_INSIDE = "\x1f"
"""Separates a scope from the calls in flight that an ask is made inside of."""
MOST_UNUSED = 10_000
"""So many blocks in which nothing was asked while they lasted are still known."""


class Budgets:
    """The budgets of a runtime: its cap, and the blocks inside it. Names are known for as long as
    it lives; a block without one until it is closed, as which it is remembered by the ledger.
    `of_user` is the budget of the user's own settings, which holds for every call, whatever the
    runtime's own budget says."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        name: str,
        rule: ScopeRule,
        of_user: ScopeRule | None = None,
    ) -> None:
        root = ScopeId(f"runtime:{name}")
        self._ledger = ledger
        self._clock = clock
        shared = structs.replace(rule, is_shared=True)
        self._rules: dict[ScopeId, tuple[ScopeRule, ScopeId | None]] = {root: (shared, None)}
        self._opened: dict[ScopeId, ScopeRule] = {}
        self._left: dict[ScopeId, None] = {}
        self._of_programs: dict[ScopeId, None] = {}
        self._unused: dict[ScopeId, None] = {}
        self._counted = 1
        self._current: ContextVar[ScopeId] = ContextVar("vega_scope", default=root)
        self._calls: ContextVar[tuple[EffectKey, ...]] = ContextVar("vega_calls", default=())
        self._run = ""
        self._may_go_on = False
        self._raised = Money(0)
        self._name = name
        self._of_user = of_user
        self._has_own_root = False
        self.root = root

    def roots_of(self, run: ProgramId | HolderId) -> tuple[ScopeId, ScopeId]:
        """Return the scopes in which a run counts: its own, and with a period that of its name. A
        run that takes other settings may have counted in either."""
        shared = ScopeId(f"runtime:{self._name}")
        return ScopeId(f"{shared}/{run}"), shared

    @property
    def current(self) -> ScopeId:
        """The scope of the innermost block."""
        return self._current.get()

    @property
    def current_for_asks(self) -> ScopeId:
        """The scope of the innermost block, with the model calls that are in flight around."""
        return ScopeId(_INSIDE.join((self.current, *self._calls.get())))

    def enter_call(self, scope: ScopeId, *calls: EffectKey) -> tuple[EffectKey, ...]:
        """Let the asks of this task know that they are made inside of these calls and of those that
        `scope` names; return the latter. An ask must not wait for what they hold."""
        around = tuple(map(EffectKey, scope.split(_INSIDE)[1:]))
        self._calls.set((*around, *calls))
        return around

    def name_blocks(self, run: str, *, may_go_on: bool) -> None:
        """Set what tells the blocks of this run from those of other runs on the same ledger. Of a
        run that may go on, blocks stay open until it has ended well: one that fails inside a block
        comes to that block again, and has to find it open, with what it has spent."""
        self._run, self._may_go_on = run, may_go_on

    def begin_run(self, run: ProgramId | HolderId) -> None:
        """Name the scope for one run, before it is opened: a cap of $10 is for each run in a
        journal, also over its incarnations; one of $10 a day is for all together."""
        rule, outer = self._rules.pop(self.root)
        if rule.period is None:
            self._has_own_root = True
            rule = structs.replace(rule, is_shared=False)
            self.root, _ = self.roots_of(run)
            self._current = ContextVar("vega_scope", default=self.root)
        self._rules[self.root] = rule, outer

    def keep_rule(self, rule: ScopeRule) -> None:
        """Hold the run to the rule that it started with, before it is opened."""
        _, outer = self._rules[self.root]
        self._rules[self.root] = rule, outer

    def raise_caps(self, amount: Money) -> None:
        """Raise the cap of the runtime by so much more, and those of the blocks inside it: a block
        that was met by calls cut off in flight must not stop the run for ever."""
        rule, outer = self._rules[self.root]
        if rule.cap is not None:
            rule = structs.replace(rule, cap=Money(rule.cap + amount))
        self._rules[self.root] = rule, outer
        self._raised = Money(self._raised + amount)

    async def sync_limits(self) -> None:
        """Write the budget of the user's own settings into the ledger that the user has alone."""
        if self._ledger.is_personal:
            await self._ledger.set_limits(EVERYBODY, [self._of_user] if self._of_user else [])

    async def is_raised(self) -> bool:
        """Whether the cap is higher than the one that the ledger knows from an earlier life. In a
        scope that others share it knows only theirs, so there it is what a person added."""
        rule, _ = self._rules[self.root]
        if not self._has_own_root:
            return self._raised > 0
        scope = await self._ledger.scope(self.root)
        if scope is None or scope.rule.cap is None:
            return False
        return rule.cap is None or rule.cap > scope.rule.cap

    def _higher(self, rule: ScopeRule) -> ScopeRule:
        return structs.replace(
            rule, cap=None if rule.cap is None else Money(rule.cap + self._raised)
        )

    @contextmanager
    def block(self, allowance: str | float | None, name: str | None) -> Generator[ScopeId]:
        """Opened by the first ask inside it and closed after the last; one with a period stays.
        Without an allowance it counts and limits nothing."""
        rule, outer = self._higher(rule_of(allowance)), self.current
        rule = structs.replace(rule, is_shared=name is not None)
        scope = ScopeId(f"{outer}/{name or allowance}")
        if name is None and rule.period is None:
            # Another run counts its blocks from one, too: without the run in the name it would find
            # this block on the ledger, used or closed.
            run = "" if self._run in outer else f"@{self._run}"
            scope = ScopeId(f"{scope}#{self._counted}{run}")
            self._counted += 1
        self._rules[scope] = (rule, outer)
        token = self._current.set(scope)
        try:
            yield scope
        finally:
            self._current.reset(token)
            if rule.period is None and name is None:
                self._left[scope] = None

    def across_incarnations(self, name: str, rule: ScopeRule) -> ScopeId:
        """A cap that the ledger keeps under this name, inside the current one. A wallet is counted
        anew when a run goes on, from what the program comes to again; what an earlier life spent
        and the program does not come to any more counts here only."""
        scope = ScopeId(f"{self.current}/{name}")
        rule = structs.replace(rule, is_shared=not self._has_own_root)
        self._rules[scope] = (rule, self.current)
        return scope

    def rules_around(self, scope: ScopeId, shared: Sequence[SharedBudget] = ()) -> ScopeRules:
        """Return what this runtime says may be spent in a scope, in those around it and by the
        agents that share budgets, which its calls bring along: others may have declared another cap
        for the same scope since."""
        rules: dict[ScopeId, ScopeRule] = {}
        around: ScopeId | None = scope
        while around is not None and around in self._rules:
            rules[around], around = self._rules[around]
        if self._of_user is not None and not self._ledger.is_personal:
            rules[EVERYBODY] = self._of_user
        return rules | {self.scope_of(budget): self._higher(_rule_of(budget)) for budget in shared}

    def scope_of(self, budget: SharedBudget) -> ScopeId:
        """Return the owner that all runs under the name of this runtime share."""
        return scope_of_agent(self._name, budget.name)

    def of_program(self, name: str, cap: Money, *, quoted: bool) -> ScopeId:
        """A cap on all that a program spends, with what a person added to it. At one that was
        `quoted` the run pauses, so that no answer is lost that was paid."""
        rule = self._higher(ScopeRule(cap, OnExceed.ASK if quoted else OnExceed.BLOCK))
        scope = self.across_incarnations(f"{name} {QUOTED}" if quoted else name, rule)
        self._of_programs[scope] = None
        return scope

    @contextmanager
    def entered(self, scope: ScopeId) -> Generator[None]:
        """Let what is asked inside draw on this scope, whoever calls."""
        token = self._current.set(scope)
        try:
            yield
        finally:
            self._current.reset(token)

    async def figures(self, scope: ScopeId) -> BudgetFigures:
        """Return what was spent in a scope, and what is reserved, as they stand now, with the cap
        of this runtime."""
        opened = await self.ready(scope)
        scope_there = await self._ledger.scope(opened)
        if scope_there is None:
            raise BugError(f"budget scope {scope!r} is open and unknown to the ledger")
        rule = self.rules_around(opened).get(opened, scope_there.rule)
        counter = await self._ledger.counter(opened, rule.period, self._clock.now())
        return BudgetFigures(
            rule, *map(Money, (counter.settled, counter.reserved, scope_there.settled))
        )

    async def spent_by(self, budget: SharedBudget) -> Money:
        """Return the spending of all runs on an agent in the present period."""
        now = self._clock.now()
        return Money(
            (await self._ledger.counter(self.scope_of(budget), budget.period, now)).settled
        )

    async def room(self, *, settled: bool = False) -> Money | None:
        """Return the largest call that fits into the current budget now; None where nothing limits
        it. With `settled` calls in flight hold nothing."""
        scope = await self.ready(self.current)
        rules = self.rules_around(scope)
        return await self._ledger.room(scope, self._clock.now(), rules, settled=settled)

    async def room_of_user(self) -> Money | None:
        """Return what is left of the budget of the user's own settings, None without one."""
        rule = self._of_user
        if rule is None or rule.cap is None or rule.on_exceed not in BINDING:
            return None
        counter = await self._ledger.counter(EVERYBODY, rule.period, self._clock.now())
        return Money(max(0, rule.cap - counter.settled - counter.reserved))

    async def binding_period(self, room: Money) -> Period | None:
        """Return the period of the budget in which no more than `room` is left, if one has."""
        scope = await self.ready(self.root)
        rules = {scope: self._rules[scope][0], EVERYBODY: self._of_user}
        for owner, rule in rules.items():
            if rule is not None and rule.cap is not None and rule.on_exceed in BINDING:
                counter = await self._ledger.counter(owner, rule.period, self._clock.now())
                if rule.cap - counter.settled <= room and rule.period is not None:
                    return rule.period
        return None

    async def ready(self, scope: ScopeId) -> ScopeId:
        """Makes sure that it is open, outermost first, and closes what was left."""
        if not self._may_go_on:
            await self.close_left()
        scope = _without_calls(scope)
        found = self._rules.get(scope)
        if found is None:
            return await self._ready_to_refuse(scope)
        rule, outer = found
        if self._opened.get(scope) != rule:  # a block of a name may come back with another budget
            if outer is not None:
                await self.ready(outer)
            opened = await self._ledger.open(scope, rule, self._clock.now(), parent=outer)
            if isinstance(opened, ScopeClosed) and opened.scope != scope:
                return opened.scope  # the one around it, which refuses; this one was not opened
            self._opened[scope] = rule
        return scope

    async def overspent(self) -> Money:
        """Return by how much bills have passed the current budget. It is nothing unless a provider
        billed more for a call than its request and `max_tokens` allow; nothing more is admitted
        then."""
        figures = await self.figures(self.current)
        cap = figures.settled if figures.rule.cap is None else figures.rule.cap
        return Money(max(0, figures.settled - cap))

    async def _ready_to_refuse(self, scope: ScopeId) -> ScopeId:
        """A block that is forgotten here is closed for the ledger, and refuses as that."""
        now = self._clock.now()
        if await self._ledger.scope(scope) is None:
            await self._ledger.open(scope, ScopeRule(None), now, parent=self.root)
            await self._ledger.close(scope)
        return scope

    async def end_run(self, *, is_done: bool) -> None:
        """Close what was left, unless the run has failed and may go on."""
        if is_done or not self._may_go_on:
            self._left |= self._of_programs
            if self._has_own_root and not self._may_go_on:
                self._left[self.root] = None
            await self.close_left()

    async def close_left(self) -> None:
        """Close the scopes of blocks that were left: all at once, so that they share a write. A
        block without a name is not entered again, so that nothing of it has to be known then."""
        left = [scope for scope in self._left if scope in self._opened]
        unused = [scope for scope in self._left if scope not in self._opened]
        self._left = {}
        await asyncio.gather(*(self._ledger.close(scope) for scope in left))
        # What was written in a block may still be asked after it: such a block is known for long.
        self._unused.update(dict.fromkeys(unused))
        for scope in (*left, *[*self._unused][: max(0, len(self._unused) - MOST_UNUSED)]):
            self._unused.pop(scope, None)
            self._forget(scope)

    def _forget(self, scope: ScopeId) -> None:
        self._opened.pop(scope, None)
        self._rules.pop(scope, None)

    def check_part(self, scope: ScopeId, cap: Money) -> None:
        """An ask that may spend more than a budget around it holds altogether is refused before
        its first call."""
        around: ScopeId | None = _without_calls(scope)
        while around is not None:
            rule, outer = self._rules.get(around, (ScopeRule(None), None))
            if rule.cap is not None and cap > rule.cap and rule.on_exceed is OnExceed.BLOCK:
                raise BudgetExceeded(
                    f"this ask may spend {format_money(cap)}, but budget {around!r} has only "
                    f"{format_money(rule.cap)}; raise that budget, or give the agent a smaller one"
                )
            around = outer


def _without_calls(scope: ScopeId) -> ScopeId:
    return ScopeId(scope.partition(_INSIDE)[0])


# The lease of a runtime on its ledger: while it is kept, what is reserved under it stays so.
#
#     take ─▶ keep: renew ─▶ settle what dead holders left ─▶ forget old claims ─▶ wait ─┐
#               ▲      └─ the ledger fails: wait a little, longer each time ─────────────┤
#               └────────────────────────────────────────────────────────────────────────┘
#
# A ledger that is away for a while (a server that restarts, a file that is locked) must not end
# the renewing: nobody would notice until the first reservation is refused. Reservations renew the
# lease too, see `policy.budget.leases`; this loop is for a runtime that waits for answers.


_LOG = logging.getLogger("vegakit")
_RENEWALS = 4
"""How often it is renewed in its length, so that three in a row may fail."""
_FIRST_RETRY_MS = 100
_PRUNE_MS = 60_000
_REMEMBER_MS = 86_400_000
"""How long a late bill still finds its claim."""
_REMEMBER_IN_MEMORY_MS = 900_000
"""Longer than any call waits for its answer."""


class Lease:
    """The lease of a runtime on its ledger, without which its reservations would be settled for it.
    `lasting` says that the ledger outlives this runtime."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        holder: HolderId,
        *,
        lasting: bool,
        length_ms: int = LEASE_MS,
    ) -> None:
        self._ledger, self._clock, self._holder = ledger, clock, holder
        self._length_ms = length_ms
        self._others = LeaseWatch(length_ms)
        self._remember_ms = _REMEMBER_MS if lasting else _REMEMBER_IN_MEMORY_MS
        self._prune_at = 0
        self._keeping: asyncio.Task[None] | None = None

    async def take(self) -> None:
        """Take the lease, and settle what holders left behind who died. A ledger that cannot be
        used is told."""
        await self._renew()

    def keep(self) -> None:
        """Renew the lease from now on, until `aclose`."""
        self._keeping = asyncio.ensure_future(self._renew_for_ever())
        self._keeping.set_name(f"vega lease of {self._holder}")
        self._keeping.add_done_callback(self._on_ended)

    async def aclose(self) -> None:
        """Stop renewing. What is still reserved is settled by others when the lease ends."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait([keeping])

    def _on_ended(self, ended: "asyncio.Task[None]") -> None:
        """Begin to renew again, and tell it. Only `aclose` should end the renewal; in a loop that
        is being closed this fails, and nothing is left to be renewed."""
        if ended is not self._keeping or asyncio.get_running_loop().is_closed():
            return
        failure = None if ended.cancelled() else ended.exception()
        _LOG.error(
            "renewing the lease of %s ended and begins again", self._holder, exc_info=failure
        )
        self.keep()

    async def _renew_for_ever(self) -> None:
        failures = 0
        while True:
            now = self._clock.now()
            due = now + self._length_ms // _RENEWALS
            try:
                await self._renew()
                await self._prune()
            except Exception as error:  # noqa: BLE001  (whatever it is, it may pass)
                due = min(due, now + _FIRST_RETRY_MS * 2**failures)
                if not failures:  # a long outage is told once
                    _LOG.warning(
                        "the lease of %s is not renewed: %s; trying again until it is",
                        self._holder,
                        error,
                    )
                failures += 1
            else:
                if failures:
                    _LOG.warning("the lease of %s is renewed again", self._holder)
                failures = 0
            await self._clock.wait_until(due)

    async def _renew(self) -> None:
        """Renew the lease before looking at others: nothing that goes wrong there may cost the
        lease."""
        now = self._clock.now()
        await self._ledger.renew(self._holder, now + self._length_ms)
        leases = dict(await self._ledger.leases())
        leases.pop(self._holder, None)
        now = self._clock.now()
        ended = self._others.ended(leases, now)
        if ended:
            await self._ledger.expire(ended, now)

    async def _prune(self) -> None:
        """Forget old claims now and then, so that a long-lived ledger stays small."""
        now = self._clock.now()
        if now >= self._prune_at:
            await self._ledger.prune(now - self._remember_ms)
            self._prune_at = now + _PRUNE_MS


# What a person is told when a call is not made: what it could cost, why not, what to set.


class _Call(Protocol):
    @property
    def model(self) -> Model: ...
    @property
    def request(self) -> ModelRequest: ...


NO_PRICE = "has no known price"
AGAIN = ", or try again when a call under way has ended"
"""What helps where a budget has room but for what other calls hold."""
QUOTED = "as quoted"
"""How the name of a scope ends that is the quote of a run."""
_CENT = dollars("$0.01")
_NOTHING = Money(0)
_LONGER = (
    "what it sends is more than was counted, by answers of more than 6 bytes a token, files that "
    "have grown or a program that was edited since, "
    "or calls were charged again and again that timed out or were cut off; "
)
_OVERBILLED = (
    "{} of it was billed above what a request and its max_tokens allow; check what the provider "
    "counts; "
)
_GO_ON = "to go on, add to it: vega resume --budget '+{}'"
_RECORD = "send less, or have it recorded, by a journal: then it goes on with more"
_OVERSPENT = (
    "it is overspent by {}, because a provider billed more than a request and its max_tokens "
    "allow, because a run with a higher cap shares it, or because the budget was lowered"
)


def answering_name(model: Model) -> str:
    """Return the name of the model that is asked and billed: a moved alias keeps the recorded
    name for its requests."""
    return getattr(model, "answers_as", model.name)


def price_of(model: Model) -> PriceRow:
    """Return the price of a model, without which nothing is sent."""
    if model.price is None:
        from vegakit.providers import runs_provider_tools  # loads the catalogue

        name, why = answering_name(model), NO_PRICE
        also = _nearest_model(name)
        if runs_provider_tools(name):
            why = "lets its provider search or run tools of its own, which tokens do not pay for"
            also = ', and per_call = "$0.05" for the most that these can cost in a call'
        raise BudgetExceeded(
            f"{name} {why}, so what a call could cost cannot be capped; "
            f'give it one in vega.toml: [prices."{name}"] input = "$1" output = "$5" '
            f"(per million tokens){also}"
        )
    return model.price


def _nearest_model(name: str) -> str:
    """Return a model with a price whose name is close: a missing price is often a misspelt name."""
    from vegakit.providers import known_models

    provider, _, model = name.partition(":")
    near = did_you_mean(model, known_models(provider), "")
    return f", or {near}" if near else ""


def _next_period(begins_ms: int | None) -> str:
    if begins_ms is None:
        return ""
    begins = datetime.fromtimestamp(begins_ms / 1000, UTC)
    return f", or wait for its next period, from {begins:%Y-%m-%d %H:%M} UTC on"


def refusal(
    call: _Call,
    worst: Money,
    verdict: Admission,
    *,
    may_go_on: bool = False,
    overbilled: Money = _NOTHING,
    waited: str = "",
) -> BudgetExceeded:
    """Return the error that says why a call is not admitted, in a run that `may_go_on` or not, to
    whose calls providers have `overbilled` so much. `waited` is why it does not wait any longer for
    money that others hold."""
    tokens = call.request.settings.max_tokens
    name = answering_name(call.model)
    could = f"a call of {name} could cost {format_money(worst)} (max_tokens {tokens:,})"
    match verdict:
        case InsufficientBudget(scope, cap, settled, reserved):
            left = Money(max(0, cap - settled - reserved))
            what = "raise the budget, or lower max_tokens"
            if scope == EVERYBODY:
                what = "raise budget.default in your own settings, or lower max_tokens"
            if settled > cap:
                over, more = Money(settled - cap), Money(settled + reserved + worst - cap)
                what = (
                    f"{_OVERSPENT.format(format_money(over))}; check what the provider counts, "
                    f"then raise the budget by {format_money(more)} or more"
                )
            return BudgetExceeded(
                f"{could}, but budget {scope!r} has {format_money(left)} left of "
                f"{format_money(cap)}: {format_money(settled)} spent, {format_money(reserved)} "
                f"reserved by calls under way{waited and f', and {waited}'}; {what}"
                + ("" if verdict.hopeless else AGAIN)
                + _next_period(verdict.refills_ms)
            )
        case NeedsHigherCap(scope, cap, missing) if scope.endswith(QUOTED):
            used, cents = Money(cap + missing - worst), -(-missing // _CENT)
            return Paused(
                f"{could}, but of the {format_money(cap)} that this run was quoted at most, "
                f"{format_money(used)} is spent or reserved: "
                + (_OVERBILLED.format(format_money(overbilled)) if overbilled else _LONGER)
                + (_GO_ON.format(format_money(Money(cents * _CENT))) if may_go_on else _RECORD)
            )
        case NeedsHigherCap(scope, cap, missing):
            return Paused(
                f"{could}: {format_money(missing)} more than budget {scope!r} of "
                f"{format_money(cap)} holds{waited and f', {waited}'}, and it is set to ask; raise "
                + ("budget.default in your own settings" if scope == EVERYBODY else "it")
                + (
                    " to go on: vega resume --budget '+$1'"
                    if may_go_on and scope != EVERYBODY
                    else ", and run it again"
                )
            )
        case ScopeClosed(scope):
            return BudgetExceeded(
                f"{could}, but budget {scope!r} is closed; make the call inside its `with` block"
            )
        case Reserved():
            raise AssertionError("a reserved call is not refused")
