"""Random programs that spend, a world that answers them in any order, and a plain model of money.

The model keeps, for every wallet and session that a call stands in, what was charged for it; it
knows nothing of parts, holding and giving back.
"""

from collections import Counter
from random import Random
from typing import Any

from tests.program.compiled import code_of
from tests.program.rooms import CENT, Room, says
from vegakit.effects import CallModel, SetTimer
from vegakit.errors import ErrorClass
from vegakit.events import Answered, Crashed, EffectCancelled, EffectOutcome, Failed, OutcomeArrived
from vegakit.money import Money
from vegakit.policy import ChildType
from vegakit.program import CancelAsk, Post, ProcessMessage, TerminateProcess, Wallet

__all__ = ["Spending", "program_of"]

AGENTS = "agent A { model fast }\nagent K { model fast  memory conversation }\n"
WORST = 2 * CENT


def program_of(chance: Random) -> str:
    return f"{AGENTS}fn main() {{\n{_block(chance, 3)}\n}}"


def _block(chance: Random, depth: int) -> str:
    return "\n".join(_statement(chance, depth) for _ in range(chance.randint(1, 3)))


def _statement(chance: Random, depth: int) -> str:
    kinds = ["send", "spawn", "async", "fail"]
    kinds += ["session", "session", "parallel", "loop"] if depth else []
    name = f"x{chance.randrange(10**9)}"
    match chance.choice(kinds):
        case "send":
            return f"try {{ {_send(chance, 'A')}; }} catch {{ print(1); }}"
        case "spawn":
            made = f"let {name} = spawn K wallet {_amount(chance)};"
            return f"try {{ {made} {_send(chance, name)}; }} catch {{ print(2); }}"
        case "async":
            ends = f"await {name};" if chance.random() < 0.6 else "print(0);"
            return (
                f"try {{ let {name} = async {_send(chance, 'A')}; {ends} }} catch {{ print(3); }}"
            )
        case "session":
            inner = _block(chance, depth - 1)
            return f"session budget {_amount(chance)} {{ {inner} }} catch {{ print(4); }}"
        case "parallel":
            sends = " ".join(f"{_send(chance, 'A')};" for _ in range(chance.randint(2, 3)))
            return f"parallel {{ {sends} }} catch {{ print(5); }}"
        case "loop":
            return f"for {name} in range(2) {{ {_block(chance, depth - 1)} }}"
        case _:
            return 'try { fail("no"); } catch { print(6); }'


def _send(chance: Random, to: str) -> str:
    options = ["", "", f" budget {_amount(chance)}", " timeout 50ms"]
    return f'{to} <- "hi"{chance.choice(options)}'


def _amount(chance: Random) -> str:
    return f"${chance.choice([1, 2, 3, 5, 8, 20]) / 100:.2f}"


class Spending:
    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self.room = Room(code_of(program_of(self._chance)))
        self.cap = Money(self._chance.choice([3, 8, 20, 60]) * CENT)
        self.path = self.room.spawn("main", kind=ChildType.TEMPORARY, wallet=self.cap)
        self._scopes: dict[str, list[str]] = {}
        self._caps: dict[str, int] = {}
        self.charged: Counter[str] = Counter()
        self.total = 0

    def run(self) -> None:
        room = self.room
        room.asked += 1
        self._step(Post(self.path, ProcessMessage([], str(room.asked))))
        for _ in range(400):
            if not room.in_flight:
                break
            self._act()
        assert not room.in_flight, "it does not come to an end"
        self._settled()
        self._step(TerminateProcess(self.path, kill=True))
        assert not room.state.wallets, room.state.wallets
        assert not room.state.sessions, room.state.sessions

    def _act(self) -> None:
        room, chance = self.room, self._chance
        calls = [e for e in room.in_flight.values() if isinstance(e.request, CallModel)]
        what = chance.random()
        if what < 0.03:
            self._step(CancelAsk(str(room.asked)))
        elif what < 0.04:
            self._step(TerminateProcess(self.path, kill=True))
        elif not calls or what < 0.1:
            self._ring()
        else:
            self._land(chance.choice(calls))

    def _ring(self) -> None:
        alarms = [e for e in self.room.in_flight.values() if isinstance(e.request, SetTimer)]
        if alarms:
            first = min(alarms, key=lambda e: e.request.due_ms)
            self.room.now = max(self.room.now, first.request.due_ms)
            del self.room.in_flight[first.key]
            self._step(OutcomeArrived(first.key, first.path, Answered(None)))

    def _land(self, effect: Any) -> None:
        outcome = self._outcome(effect.key in self.room.cancelled)
        for scope in self._scopes.pop(effect.key):
            self.charged[scope] += outcome.charged
        self.total += outcome.charged
        del self.room.in_flight[effect.key]
        self._step(OutcomeArrived(effect.key, effect.path, outcome))

    def _outcome(self, cancelled: bool) -> Any:
        cost = Money(self._chance.randint(0, WORST))
        made: list[EffectOutcome] = [
            *(says("yes", cost), says("yes", cost), says("yes", cost)),
            Failed(ErrorClass.REJECTED, "no", charged=cost),
            Crashed("boom", cost),
        ]
        return EffectCancelled(cost) if cancelled else self._chance.choice(made)

    def _step(self, event: Any) -> None:
        before = set(self.room.in_flight)
        self.room.step(event)
        for key in set(self.room.in_flight) - before:
            if isinstance(self.room.in_flight[key].request, CallModel):
                self._scopes[key] = self._around(key)
        self._hold_to_caps()

    def _around(self, key: str) -> list[str]:
        """All wallets and sessions that a call stands in, by the structure of the program alone."""
        state = self.room.state
        flight = state.effects_in_flight[key]  # type: ignore[index]
        scopes, path, session = list[str](), flight.path, flight.session
        while path:
            while session and state.sessions[session].owner == path:
                scopes.append(session)
                session = state.sessions[session].inside
            scopes.append(path)
            process = state.processes[path]
            path, session = process.spawner, session or process.session
        return scopes

    def _hold_to_caps(self) -> None:
        for key, wallet in self.room.state.wallets.items():
            assert wallet.held >= 0, (key, wallet)
            assert wallet.spent >= 0, (key, wallet)
            if wallet.cap is not None:
                assert wallet.spent + wallet.held <= wallet.cap, (key, wallet)
                self._caps[key] = wallet.cap
        for key, cap in self._caps.items():
            assert self.charged[key] <= cap, (key, self.charged[key], cap)

    def _settled(self) -> None:
        """Nothing is under way, so nothing is held but parts of what still lives."""
        wallet = self.room.state.wallets.get(self.path, Wallet(self.cap))
        if self.path in self.room.state.processes:
            assert wallet.spent + wallet.held >= self.total, (wallet, self.total)
            assert self.charged[self.path] == self.total
            if not wallet.held:
                assert wallet.spent == self.total, (wallet, self.total)
