"""Counters, limits and constraints as a model, and a checker that believes nothing but its events.

    python -m campaigns.money_model 100000      a hundred thousand random histories

Clients share one ledger and disagree: about caps, periods, owners and `on_exceed`. Each has its own
clock, which may jump by 400 days and back. A client pauses for longer than its lease, and does not
always learn whether its reservation was committed. Wallets are reserved once and admit their calls
themselves. The ledger here decides; the checker reads the events in the order of their commits,
with what each run printed, and computes every sum anew. So it judges any ledger whose events are
written in this form. Amounts are whole nano-dollars.

Then the same histories run with faults that are planted, each of which has to be found.
"""

import random
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

__all__ = [
    "FAULTS",
    "KINDS",
    "Checker",
    "Constraint",
    "Event",
    "Kind",
    "What",
    "check",
    "history",
    "main",
    "owners_of",
]

HOUR_S = 3_600
DAY_S = 24 * HOUR_S
BEGAN_S = 20_400 * DAY_S
JUMP_S = 400 * DAY_S
LEASE_S = 20
CLIENTS = 3
STEPS = 60

Kind: TypeAlias = Literal["hour", "day", "month", "total"]
KINDS: tuple[Kind, ...] = ("hour", "day", "month", "total")
Window: TypeAlias = tuple[Kind, int]


def number_of(kind: Kind, now: int) -> int:
    """Return the number of the window that an instant lies in; a month has 30 days here."""
    lengths = {"hour": HOUR_S, "day": DAY_S, "month": 30 * DAY_S}
    return 0 if kind == "total" else now // lengths[kind]


class Constraint(NamedTuple):
    owner: str
    kind: Kind
    cap: int
    blocks: bool = True


class What(StrEnum):
    """The kinds of events: `CHARGE` sets what a call comes to, as often as that is corrected, and
    `LOOK` is what somebody was told that an owner has used."""

    LIMIT = "limit"
    OPEN = "open"
    RESERVE = "reserve"
    SEND = "send"
    CHARGE = "charge"
    RELEASE = "release"
    END = "end"
    LOOK = "look"


@dataclass
class Event:
    what: What
    now: int = 0
    run: str = ""
    call: str = ""
    amount: int = 0
    is_admitted: bool = True
    is_wallet: bool = False
    wallet: str = ""
    owner: str = ""
    kind: Kind = "total"
    cap: int | None = None
    constraints: tuple[Constraint, ...] = ()
    owners: tuple[str, ...] = ()


# The checker.


@dataclass
class _Held:
    """A call or wallet that was admitted: `amount` is what it comes to at present."""

    event: Event
    amount: int
    is_sent: bool = False
    is_freed: bool = False
    is_ended: bool = False


@dataclass
class Checker:
    """The sums of all events that it has seen, by the calendar of the ledger."""

    number_of: Callable[[Kind, int], object]
    limits: dict[tuple[str, Kind], int | None] = field(
        default_factory=dict[tuple[str, Kind], int | None]
    )
    runs: dict[str, Event] = field(default_factory=dict[str, Event])
    held: dict[str, _Held] = field(default_factory=dict[str, _Held])

    def see(self, event: Event) -> str:
        """Return what is wrong with the next event."""
        match event.what:
            case What.LIMIT:
                self.limits[event.owner, event.kind] = event.cap
            case What.OPEN:
                self.runs[event.run] = event
            case What.RESERVE:
                return self._reserved(event)
            case What.SEND:
                return self._sent(event)
            case What.CHARGE | What.RELEASE:
                call = self.held.get(event.call)
                if call is None:
                    return f"{event.call} was settled and never reserved"
                call.amount = event.amount
                call.is_freed = event.what is What.RELEASE
            case What.END:
                self.held[event.call].is_ended = True
            case What.LOOK:
                counted = self.counted(event.owner, event.kind, event.now)
                if counted != event.amount:
                    return f"{event.owner} has used {counted}, and was told of {event.amount}"
        return ""

    def _reserved(self, event: Event) -> str:
        if event.call in self.held:
            return f"{event.call} was reserved twice"
        room = self._room_in_wallet(event) if event.wallet else self.room(event)
        if event.is_admitted:
            self.held[event.call] = _Held(event, event.amount)
        if event.is_admitted == (room is None or event.amount <= room):
            return ""
        said = "admitted" if event.is_admitted else "refused"
        return f"{event.run} was {said} {event.amount} where {room} was left"

    def _sent(self, event: Event) -> str:
        call = self.held.get(event.call)
        if call is None or call.is_freed or call.is_sent:
            return f"{event.call} was sent without a reservation, or twice"
        call.is_sent = True
        return ""

    def _room_in_wallet(self, event: Event) -> int | None:
        wallet = self.held[event.wallet]
        return 0 if wallet.is_ended else wallet.amount - self._inside(event.wallet)

    def _inside(self, wallet: str) -> int:
        return sum(one.amount for one in self.held.values() if one.event.wallet == wallet)

    def room(self, event: Event) -> int | None:
        """Return the largest reservation that would fit at an event; None if nothing limits it."""
        run = self.runs[event.run]
        bounds = [one for one in run.constraints if one.blocks]
        bounds += [
            Constraint(owner, kind, cap)
            for (owner, kind), cap in self.limits.items()
            if cap is not None and owner in run.owners
        ]
        left = (one.cap - self.counted(one.owner, one.kind, event.now) for one in bounds)
        return min(left, default=None)

    def counted(self, owner: str, kind: Kind, now: int) -> int:
        """Return the sum of an owner in the window of an instant."""
        number = self.number_of(kind, now)
        return sum(
            self._comes_to(call, one)
            for call, one in self.held.items()
            if not one.event.wallet
            and self.number_of(kind, one.event.now) == number
            and owner in owners_of(self.runs[one.event.run])
        )

    def _comes_to(self, call: str, one: _Held) -> int:
        if not one.event.is_wallet:
            return one.amount
        return self._inside(call) if one.is_ended else max(one.amount, self._inside(call))


def owners_of(run: Event) -> set[str]:
    """Return in whose counters a run counts."""
    return {*run.owners, *(one.owner for one in run.constraints)}


def check(
    events: Iterable[Event], number_of: Callable[[Kind, int], object] = number_of
) -> list[str]:
    """Return everything that is wrong, computed from the events alone. `number_of` is the calendar
    of the ledger."""
    checker = Checker(number_of)
    wrong = ((at, checker.see(event)) for at, event in enumerate(events))
    return [f"event {at}: {said}" for at, said in wrong if said]


# The ledger that decides, and what may be wrong with it.


LAST_OPENER = "last opener wins"
PERIOD_REPLACED = "a cap without a period replaces"
WARN_OF_ALL = "warn of one is warn of all"
ONE_ROW = "one row for all windows"
CARRIED = "sums are carried between windows"
ONLY_NAMED = "a limit only where the client names it"
NOW_SETTLED = "settled in the window of the settlement"
TWICE = "a lost commit is reserved again"
SENT_LATE = "sent after the lease has ended"
WALLET_KEPT = "the rest of a wallet stays reserved"
FAULTS = (
    LAST_OPENER,
    PERIOD_REPLACED,
    WARN_OF_ALL,
    ONE_ROW,
    CARRIED,
    ONLY_NAMED,
    NOW_SETTLED,
    TWICE,
    SENT_LATE,
    WALLET_KEPT,
)


@dataclass
class _Claim:
    run: str
    amount: int
    places: list[tuple[str, Window]]
    wallet: str = ""
    state: Literal["reserved", "sent", "charged", "freed"] = "reserved"


@dataclass
class _Wallet:
    cap: int
    used: int
    places: list[tuple[str, Window]]
    is_ended: bool = False


@dataclass
class _Ledger:
    fault: str = ""
    limits: dict[tuple[str, Kind], int | None] = field(
        default_factory=dict[tuple[str, Kind], int | None]
    )
    sums: dict[tuple[str, Window], int] = field(default_factory=dict[tuple[str, Window], int])
    runs: dict[str, Event] = field(default_factory=dict[str, Event])
    opened: dict[tuple[str, Kind], Constraint] = field(
        default_factory=dict[tuple[str, Kind], Constraint]
    )
    newest: dict[str, int] = field(default_factory=dict[str, int])
    claims: dict[str, _Claim] = field(default_factory=dict[str, _Claim])
    wallets: dict[str, _Wallet] = field(default_factory=dict[str, _Wallet])

    def open(self, run: Event) -> None:
        self.runs[run.run] = run
        self.opened |= {(one.owner, one.kind): one for one in run.constraints}

    def reserve(self, run: str, call: str, amount: int, now: int, wallet: str = "") -> bool:
        if wallet:
            pot = self.wallets[wallet]
            if pot.is_ended or pot.used + amount > pot.cap:
                return False
            pot.used += amount
            self.claims[call] = _Claim(run, amount, [], wallet)
            return True
        places = self._admitted(run, amount, now)
        if places is not None:
            self.claims[call] = _Claim(run, amount, places)
        return places is not None

    def open_wallet(self, run: str, name: str, amount: int, now: int) -> bool:
        places = self._admitted(run, amount, now)
        if places is not None:
            self.wallets[name] = _Wallet(amount, 0, places)
        return places is not None

    def end_wallet(self, name: str) -> None:
        pot = self.wallets[name]
        pot.is_ended = True
        if self.fault != WALLET_KEPT:
            self._move(pot.places, pot.used - pot.cap)

    def _admitted(self, run: str, amount: int, now: int) -> list[tuple[str, Window]] | None:
        for one in self._bounds(self.runs[run]):
            place = (one.owner, self._window(one.owner, one.kind, now))
            if self.sums.get(place, 0) + amount > one.cap:
                return None
        owners = sorted(owners_of(self.runs[run]))
        places = [(owner, self._window(owner, kind, now)) for owner in owners for kind in KINDS]
        self._move(places, amount)
        return places

    def _bounds(self, run: Event) -> Iterator[Constraint]:
        said = run.constraints
        if self.fault == LAST_OPENER:
            said = tuple(self.opened[one.owner, one.kind] for one in said)
        if self.fault == WARN_OF_ALL and not all(one.blocks for one in self.opened.values()):
            return
        yield from (one for one in said if one.blocks)
        if self.fault == PERIOD_REPLACED and any(one.kind == "total" for one in said):
            return
        above = {one.owner for one in said} if self.fault == ONLY_NAMED else {*run.owners}
        for (owner, kind), cap in self.limits.items():
            if cap is not None and owner in above:
                yield Constraint(owner, kind, cap)

    def _window(self, owner: str, kind: Kind, now: int) -> Window:
        if self.fault == ONE_ROW:  # it never goes back
            now = self.newest[owner] = max(now, self.newest.get(owner, 0))
        window = (kind, number_of(kind, now))
        if self.fault == CARRIED and (owner, window) not in self.sums:
            others = [total for (one, _), total in self.sums.items() if one == owner]
            self.sums[owner, window] = max(others, default=0)
        return window

    def _move(self, places: list[tuple[str, Window]], amount: int) -> None:
        for place in places:
            self.sums[place] = self.sums.get(place, 0) + amount

    def mark_sent(self, call: str) -> bool:
        claim = self.claims[call]
        may_send = claim.state == "reserved" or self.fault == SENT_LATE
        claim.state = "sent" if may_send else claim.state
        return may_send

    def settle(self, call: str, bill: int, now: int, *, is_freed: bool = False) -> None:
        """Set what a call comes to, also when it was settled before."""
        claim = self.claims[call]
        changed, claim.amount = bill - claim.amount, bill
        claim.state = "freed" if is_freed else "charged"
        if claim.wallet:
            pot = self.wallets[claim.wallet]
            pot.used += changed
            if pot.is_ended:
                self._move(pot.places, changed)
            return
        if self.fault == NOW_SETTLED:
            self._move(claim.places, changed - bill)
            claim.places = [
                (owner, self._window(owner, kind, now)) for owner, (kind, _) in claim.places
            ]
            self._move(claim.places, bill)
            return
        self._move(claim.places, changed)


# Clients, and what happens to them.


@dataclass
class _Client:
    name: str
    ahead: int = 0
    runs: list[str] = field(default_factory=list[str])
    live: list[str] = field(default_factory=list[str])
    sent: list[str] = field(default_factory=list[str])
    wallets: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    unsure: list[Event] = field(default_factory=list[Event])
    alive_s: int = 0


class _World:
    """The clients of one ledger, beside the true time, which none of them sees."""

    def __init__(self, seed: int, fault: str) -> None:
        self.chance = random.Random(seed)
        self.fault, self.ledger = fault, _Ledger(fault)
        self.events: list[Event] = []
        self.time = BEGAN_S + self.chance.randrange(DAY_S)
        self.clients = [_Client(f"client {number}") for number in range(CLIENTS)]
        self.late: list[tuple[_Client, str]] = []
        self._made = 0

    def step(self) -> None:
        """Let one client do something, after which some time has passed."""
        chance, client = self.chance, self.chance.choice(self.clients)
        self._expire()
        client.alive_s = self.time
        if chance.random() < 0.06:
            client.ahead = chance.choice([0, 0, -JUMP_S, JUMP_S, HOUR_S, DAY_S])
        now = self.time + client.ahead
        steps = [self._open, self._reserve, self._reserve, self._reserve, self._send, self._settle]
        steps += [self._settle, self._wallet, self._limit, self._ask_again, self._correct]
        chance.choice(steps if client.runs else [self._open])(client, now)
        self.time += chance.choice([0, 0, 1, 1, 5, LEASE_S, 2 * LEASE_S, HOUR_S // 2, DAY_S])

    def _name(self, kind: str) -> str:
        self._made += 1
        return f"{kind} {self._made}"

    def _say(self, event: Event) -> None:
        self.events.append(event)

    def _limit(self, client: _Client, now: int) -> None:
        del client
        kind = self.chance.choice(KINDS)
        cap = self.chance.choice([None, *range(10, 120, 10)])
        self.ledger.limits["user", kind] = cap
        self._say(Event(What.LIMIT, now, owner="user", kind=kind, cap=cap))

    def _open(self, client: _Client, now: int) -> None:
        name, chance = self._name("run"), self.chance
        owners = chance.sample(["project a", "project b", "team", "user"], chance.randrange(3))
        said = [self._constraint(owner, chance.choice(KINDS)) for owner in owners]
        if chance.random() < 0.5:
            said.append(self._constraint(name, "total"))
        run = Event(What.OPEN, now, name, constraints=tuple(said), owners=("user",))
        self.ledger.open(run)
        self._say(run)
        client.runs.append(name)

    def _constraint(self, owner: str, kind: Kind) -> Constraint:
        cap = self.chance.randrange(5, 120)
        return Constraint(owner, kind, cap, blocks=self.chance.random() < 0.85)

    def _reserve(self, client: _Client, now: int) -> None:
        chance = self.chance
        wallet, run = "", chance.choice(client.runs)
        if client.wallets and chance.random() < 0.4:
            wallet, run = chance.choice(client.wallets)
        call = self._name("call")
        wanted = Event(What.RESERVE, now, run, call, chance.randrange(1, 40), wallet=wallet)
        is_told = self._commit(client, wanted)
        if not is_told:
            client.unsure.append(wanted)

    def _commit(self, client: _Client, wanted: Event) -> bool:
        """Commit a reservation or lose it on the way; return whether the client learns of it."""
        luck = self.chance.random()
        if luck < 0.05:
            return False
        wanted.is_admitted = self.ledger.reserve(
            wanted.run, wanted.call, wanted.amount, wanted.now, wanted.wallet
        )
        self._say(wanted)
        if wanted.is_admitted and luck >= 0.1:
            client.live.append(wanted.call)
        return luck >= 0.1

    def _ask_again(self, client: _Client, now: int) -> None:
        """Who does not know whether it reserved asks for the claim before it reserves."""
        if not client.unsure:
            return
        lost = client.unsure.pop()
        if lost.call in self.ledger.claims and self.fault != TWICE:
            client.live.append(lost.call)
            return
        again = Event(What.RESERVE, now, lost.run, lost.call, lost.amount, wallet=lost.wallet)
        again.is_admitted = self.ledger.reserve(
            again.run, again.call, again.amount, again.now, again.wallet
        )
        self._say(again)
        if again.is_admitted:
            client.live.append(again.call)

    def _send(self, client: _Client, now: int) -> None:
        if not client.live:
            return
        call = client.live.pop(self.chance.randrange(len(client.live)))
        if self.ledger.mark_sent(call):
            self._say(Event(What.SEND, now, call=call))
            client.sent.append(call)

    def _settle(self, client: _Client, now: int) -> None:
        chance = self.chance
        if client.sent and chance.random() < 0.8:
            call = client.sent.pop(chance.randrange(len(client.sent)))
            most = self.ledger.claims[call].amount
            self._charge(call, chance.choice([0, most, chance.randrange(most + 1)]), now)
        elif client.live:
            call = client.live.pop(chance.randrange(len(client.live)))
            if self.ledger.claims[call].state == "reserved":
                self._free(call, now)

    def _charge(self, call: str, bill: int, now: int) -> None:
        self.ledger.settle(call, bill, now)
        self._say(Event(What.CHARGE, now, call=call, amount=bill))

    def _free(self, call: str, now: int) -> None:
        self.ledger.settle(call, 0, now, is_freed=True)
        self._say(Event(What.RELEASE, now, call=call))

    def _correct(self, client: _Client, now: int) -> None:
        """The answer of a call comes that was charged in full meanwhile."""
        late = [call for owner, call in self.late if owner is client]
        if late:
            call = self.chance.choice(late)
            self.late.remove((client, call))
            self._charge(call, self.chance.randrange(self.ledger.claims[call].amount + 1), now)

    def _wallet(self, client: _Client, now: int) -> None:
        chance = self.chance
        if client.wallets and chance.random() < 0.5:
            name, run = client.wallets.pop(chance.randrange(len(client.wallets)))
            self.ledger.end_wallet(name)
            self._say(Event(What.END, now, run, name))
            return
        name, run, amount = self._name("wallet"), chance.choice(client.runs), chance.randrange(80)
        is_admitted = self.ledger.open_wallet(run, name, amount, now)
        event = Event(What.RESERVE, now, run, name, amount, is_admitted, is_wallet=True)
        self._say(event)
        if is_admitted:
            client.wallets.append((name, run))

    def _expire(self) -> None:
        """Settle what clients left in flight that have shown no sign of life for a lease."""
        for client in self.clients:
            if self.time - client.alive_s < LEASE_S:
                continue
            now = self.time + self.chance.choice(self.clients).ahead
            for call in client.live:
                if self.ledger.claims[call].state == "reserved":
                    self._free(call, now)
            for call in client.sent:
                self._charge(call, self.ledger.claims[call].amount, now)
            self.late += [(client, call) for call in client.sent]
            client.sent = []


def history(seed: int, fault: str = "", steps: int = STEPS) -> list[Event]:
    """Return the events of one random history."""
    world = _World(seed, fault)
    for _ in range(steps):
        world.step()
    return world.events


def main(histories: int = 1_000) -> int:
    """Judge so many histories, and a tenth of them, at least 300, with each fault."""
    wrong = [(seed, said[0]) for seed in range(histories) if (said := check(history(seed)))]
    for seed, said in wrong[:5]:
        print(f"history {seed}: {said}")
    print(f"{histories:,} histories, {len(wrong)} broken")
    missed = 0
    planted = max(300, histories // 10)
    for fault in FAULTS:
        count = sum(bool(check(history(seed, fault))) for seed in range(planted))
        missed += not count
        print(f"planted: {fault}: found in {count:,} of {planted:,}")
    return int(bool(wrong) or missed > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
