"""Calls that wait for money inside of other calls, on real ledgers.

    python -m campaigns.waiting 1000             virtual time, one ledger in memory
    python -m campaigns.waiting processes 50     two processes, on SQLite and on PostgreSQL

A schedule is drawn from its seed: two clients ask models, and these models ask others before they
answer, so that each client holds most of the money while it waits for more. In virtual time the
ledger writes down each step in the order of its commits, and `campaigns.waiting_model` judges it.
Two processes see nothing but the ledger. Each schedule has to end before any call loses patience, a
refusal has to name both sums and to hit the younger call, and no cap may be passed.
"""

import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.store.postgres import own_schema, url_of

from campaigns.waiting_model import Did, Step, check
from vegakit.concurrency import SteadyClock
from vegakit.conversation import (
    AssistantMessage,
    ModelReply,
    ModelRequest,
    ModelSettings,
    Text,
    Usage,
    UserMessage,
)
from vegakit.errors import BudgetExceeded
from vegakit.host import Account, Gate, Limiter, LimiterRules, ModelCall
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import (
    Admission,
    BreakerRule,
    Deadlock,
    RateRule,
    Reserved,
    RetryRule,
    ScopeRule,
    ScopeRules,
    Settlement,
)
from vegakit.ports import Clock, Ledger
from vegakit.providers import SCRIPTED_PRICE
from vegakit.store import MemoryLedger, open_ledger
from vegakit.testing import VirtualClock, run_virtual

__all__ = ["main", "play"]

UNIT = 5_000
"""Nano-dollars that a token costs."""
TEAM = ScopeId("team")
PATIENCE_MS = 60_000
GAP_MS = 250
"""Two calls that begin to wait so close together may swap places on a busy machine."""
LEASE_MS = 600_000
YOUNGEST = "began to wait last"
CLIENTS = 2


@dataclass
class Plan:
    """A call: when it begins after the one around it, what it reserves, how long its model takes,
    what it bills, and the calls that its model makes meanwhile."""

    name: str
    delay_ms: int
    amount: int
    latency_ms: int
    bill: int
    is_of_team: bool
    inner: "list[Plan]" = field(default_factory=list["Plan"])


def drawn(chance: random.Random, name: str, depth: int, slow: int) -> Plan:
    """Draw a call with all calls inside of it."""
    amount = chance.randrange(4, 50)
    inner = chance.choice([0, 1, 1, 2]) if depth else 0
    return Plan(
        name,
        chance.randrange(20) * slow,
        amount,
        chance.randrange(20) * slow,
        chance.randrange(amount + 1),
        chance.random() < 0.4,
        [drawn(chance, f"{name}.{number}", depth - 1, slow) for number in range(inner)],
    )


class Client:
    """One process, or what stands for one: a gate of its own on the shared ledger."""

    def __init__(
        self, ledger: Ledger, clock: Clock, name: str, root: ScopeId, caps: Sequence[int]
    ) -> None:
        self.gate = Gate(ledger, clock, HolderId(name))
        self.clock, self.root = clock, root
        self.team = ScopeId(f"{TEAM} of {root}")
        self.caps = [ScopeRule(Money(cap * UNIT)) for cap in caps]
        self.refusals: list[tuple[str, str]] = []
        self.began: dict[str, int] = {}

    async def ask_all(self, plans: Sequence[Plan], inside: tuple[EffectKey, ...] = ()) -> None:
        """Ask side by side. A refused call does not end the others."""
        await asyncio.gather(*(self.ask(plan, inside) for plan in plans))

    async def ask(self, plan: Plan, inside: tuple[EffectKey, ...]) -> None:
        await self.clock.wait_until(self.clock.now() + plan.delay_ms)
        self.began[plan.name] = round(time.monotonic() * 1000)
        rules: dict[ScopeId, ScopeRule] = {self.root: self.caps[0]}
        if plan.is_of_team:
            rules[self.team] = self.caps[1]
        call = ModelCall(
            _Asking(self, plan, inside),
            ModelRequest("asking", (UserMessage((Text("?"),)),), ModelSettings(plan.amount)),
            EffectKey(plan.name),
            self.root,
            Limiter("asking", LimiterRules(RateRule(), BreakerRule()), self.clock),
            RetryRule(max_attempts=1),
            budget_wait_ms=PATIENCE_MS,
            bound=(1, Money(plan.amount * UNIT)),
            rules=rules,
            inside=inside,
        )
        try:
            async with aclosing(self.gate.chunks(call, Account())) as chunks:
                async for _ in chunks:
                    pass
        except BudgetExceeded as refused:
            self.refusals.append((plan.name, str(refused)))


class _Asking:
    """Implements `ports.Model`: it asks others before it answers."""

    name, price, context_tokens, default_max_tokens = "asking", SCRIPTED_PRICE, None, 100

    def __init__(self, client: Client, plan: Plan, inside: tuple[EffectKey, ...]) -> None:
        self._client, self._plan, self._inside = client, plan, inside

    def bound_input(self, request: ModelRequest) -> int:
        return 0

    async def ask(self, request: ModelRequest) -> ModelReply:
        clock, plan = self._client.clock, self._plan
        await clock.wait_until(clock.now() + plan.latency_ms)
        await self._client.ask_all(plan.inner, (*self._inside, EffectKey(plan.name)))
        return ModelReply(AssistantMessage((Text("!"),)), Usage(0, plan.bill))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelReply]:
        yield await self.ask(request)

    async def aclose(self) -> None:
        pass


# Virtual time: every step of the ledger is judged.


class _Recording(MemoryLedger):
    """A ledger that writes down what it decides. With `is_blind` it knows no deadlocks."""

    def __init__(self, *, is_blind: bool = False) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.is_blind = is_blind

    async def reserve(
        self,
        effect: EffectKey,
        attempt: int,
        scope_id: ScopeId,
        worst_case: Money,
        *rest: Any,
        **more: Any,
    ) -> Admission:
        verdict = await super().reserve(effect, attempt, scope_id, worst_case, *rest, **more)
        did = Did.RESERVE
        if not isinstance(verdict, Reserved):
            did = Did.SPENT if getattr(verdict, "hopeless", True) else Did.WAIT
        if did is not Did.WAIT or "." not in effect:
            self._say(did, effect, worst_case, str(rest[0]), more["rules"])
        return verdict

    async def wait(
        self, effect: EffectKey, scope_id: ScopeId, wanted: Money, *rest: Any, **more: Any
    ) -> Deadlock | None:
        if self.is_blind:
            return None
        is_new = effect not in self._budget.waiters
        deadlock = await super().wait(effect, scope_id, wanted, *rest, **more)
        if is_new or deadlock:
            did = Did.DEADLOCK if deadlock else Did.WAIT
            self._say(did, effect, wanted, more["holder"], more["rules"])
        return deadlock

    async def answer(
        self, effect: EffectKey, attempt: int, bill: Money, now: int, **rest: Any
    ) -> Settlement:
        self.steps.append(Step(Did.END, effect, bill))
        return await super().answer(effect, attempt, bill, now, **rest)

    def _say(
        self, did: Did, effect: EffectKey, amount: Money, client: str, rules: ScopeRules
    ) -> None:
        counters = tuple(str(owner).partition(" ")[0] for owner in rules)
        inside = effect.rpartition(".")[0]
        self.steps.append(Step(did, effect, amount, client, counters, inside))


def play(seed: int, *, is_blind: bool = False) -> tuple[list[str], int]:
    """Play one schedule in virtual time; return what is wrong, and the number of deadlocks."""
    chance = random.Random(seed)
    caps = [chance.randrange(50, 110), chance.randrange(40, 110)]
    plans = [
        [drawn(chance, f"{client}-{number}", 2, 5) for number in range(chance.randrange(1, 4))]
        for client in range(CLIENTS)
    ]
    ledger, clients = _Recording(is_blind=is_blind), list[Client]()

    async def played() -> None:
        clock, root = VirtualClock(), ScopeId("all")
        await ledger.open(root, ScopeRule(Money(caps[0] * UNIT)), clock.now())
        clients.extend(Client(ledger, clock, f"client {n}", root, caps) for n in range(CLIENTS))
        await asyncio.gather(*(one.ask_all(plan) for one, plan in zip(clients, plans, strict=True)))

    run_virtual(played())
    wrong = check({"all": caps[0] * UNIT, "team": caps[1] * UNIT}, ledger.steps)
    refusals = [refusal for one in clients for refusal in one.refusals]
    wrong += [text for _, text in refusals if "came free" in text]
    return wrong, sum(step.did is Did.DEADLOCK for step in ledger.steps)


# Two processes: each sees nothing but the ledger.


def _cap_of(seed: int) -> int:
    return random.Random(f"cap {seed}").randrange(60, 110)


async def _serve(place: str, number: int) -> None:
    """One process: play its half of each schedule that a line names, and print how it went."""
    ledger, clock = open_ledger(place), SteadyClock()
    await ledger.renew(HolderId(f"process {number}"), clock.now() + LEASE_MS)
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        seed = int(line)
        root, cap = ScopeId(f"schedule {seed}"), _cap_of(seed)
        client = Client(ledger, clock, f"process {number}", root, [cap, cap])
        chance = random.Random(f"{seed}/{number}")
        plans = [_outer(chance, f"{seed}-{number}-outer", cap)]
        if seed % 2:
            plans += [drawn(chance, f"{seed}-{number}-{one}", 2, 10) for one in range(2)]
        began = time.monotonic()
        await client.ask_all(plans)
        took_s = time.monotonic() - began
        print(json.dumps([took_s, client.refusals, client.began]), flush=True)
    await ledger.aclose()


def _outer(chance: random.Random, name: str, cap: int) -> Plan:
    """Return a call that holds nearly half of the cap while it asks for more than is left."""
    inner = Plan(f"{name}.0", chance.randrange(600), cap // 4, 10, cap // 8, is_of_team=False)
    return Plan(name, 0, cap * 9 // 20, 50, cap // 8, is_of_team=False, inner=[inner])


async def _made(place: str) -> None:
    ledger = open_ledger(place)
    await ledger.leases()
    await ledger.aclose()


def _processes(place: str, schedules: int) -> int:
    command = [sys.executable, "-m", "campaigns.waiting", "serve", place]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [
        subprocess.Popen([*command, str(n)], cwd=Path(__file__).parents[1], **pipes)
        for n in range(CLIENTS)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        return asyncio.run(_judge(place, processes, schedules))
    finally:
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=30)


async def _judge(place: str, processes: "list[subprocess.Popen[str]]", schedules: int) -> int:
    ledger, wrong, deadlocks, longest_s = open_ledger(place), list[str](), 0, 0.0
    for seed in range(schedules):
        root, cap = ScopeId(f"schedule {seed}"), _cap_of(seed) * UNIT
        await ledger.open(root, ScopeRule(Money(cap)), 0)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(f"{seed}\n")
            process.stdin.flush()
        lines = [asyncio.to_thread(one.stdout.readline) for one in processes if one.stdout]
        reports = asyncio.gather(*lines)
        most = await _most_used(ledger, root, reports)
        refusals: list[tuple[str, str]] = []
        began: dict[str, int] = {}
        for took_s, told, begun in map(json.loads, await reports):
            longest_s = max(longest_s, took_s)
            refusals += map(tuple, told)
            began |= begun
        wrong += [f"schedule {seed}: {text}" for text in _faults(seed, refusals, began)]
        deadlocks += any(YOUNGEST in text for _, text in refusals)
        scope = await ledger.scope(root)
        assert scope is not None
        if most > cap or scope.settled > cap or scope.reserved:
            wrong.append(f"schedule {seed}: {most} of {cap} used, {scope.reserved} left reserved")
    await ledger.aclose()
    kind = place.partition(":")[0] if "://" in place else "sqlite"
    print(
        f"{kind}: {schedules} schedules, {deadlocks} with a deadlock of both, {len(wrong)} wrong, "
        f"the longest took {longest_s:.1f} s"
    )
    print(*wrong[:5], sep="\n")
    return len(wrong)


async def _most_used(ledger: Ledger, root: ScopeId, until: Awaitable[Any]) -> int:
    """Return the most that was ever seen settled or reserved."""
    most, reports = 0, asyncio.ensure_future(until)
    while not reports.done():
        scope = await ledger.scope(root)
        most = max(most, scope.settled + scope.reserved if scope else 0)
        await asyncio.wait([reports], timeout=0.02)
    return most


def _faults(seed: int, refusals: Sequence[tuple[str, str]], began: dict[str, int]) -> list[str]:
    """Return what is wrong with the refusals of one schedule: a call lost patience, or a refusal
    does not name both sums. Where only two calls are in each other's way, the older one gave way,
    or both did."""
    wrong = [text for _, text in refusals if "came free" in text]
    youngest = [(name, text) for name, text in refusals if YOUNGEST in text]
    wrong += [
        text for _, text in youngest if "could cost $" not in text or "by calls of" not in text
    ]
    if seed % 2 or not youngest:
        return wrong
    wrong += ["both calls gave way"] if len(youngest) > 1 else []
    younger, older = sorted(
        (f"{seed}-{number}-outer.0" for number in range(CLIENTS)),
        key=began.__getitem__,
        reverse=True,
    )
    is_clear = began[younger] - began[older] > GAP_MS
    return [*wrong, "the older call gave way"] if is_clear and youngest[0][0] == older else wrong


def main(schedules: int = 1_000) -> int:
    """Play so many schedules in virtual time, and thirty on a ledger that knows no deadlocks."""
    wrong = {seed: said for seed in range(schedules) if (said := play(seed)[0])}
    deadlocks = sum(play(seed)[1] > 0 for seed in range(schedules))
    print(
        f"virtual time: {schedules:,} schedules, {deadlocks:,} with a deadlock, {len(wrong)} wrong"
    )
    print(*[f"schedule {seed}: {said[0]}" for seed, said in [*wrong.items()][:5]], sep="\n")
    blind = sum(bool(play(seed, is_blind=True)[0]) for seed in range(30))
    print(f"planted: a ledger without the rule: found in {blind} of 30")
    return int(bool(wrong) or not blind)


def main_processes(schedules: int = 50) -> int:
    with tempfile.TemporaryDirectory() as folder, own_schema() as schema:
        places = str(Path(folder) / "ledger.db"), url_of(schema)
        for place in places:  # its tables are made once, by one process
            asyncio.run(_made(place))
        wrong = [_processes(place, schedules) for place in places]
    return int(any(wrong))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", place, number]:
            asyncio.run(_serve(place, int(number)))
        case ["processes", *schedules]:
            sys.exit(main_processes(*map(int, schedules)))
        case schedules:
            sys.exit(main(*map(int, schedules)))
