"""A program machine that is checked at every step against the invariants of a run.

| always                                                          | at the end                     |
|-----------------------------------------------------------------|--------------------------------|
| an ask is answered once, never by an incarnation that has ended | every ask has been answered    |
| what is spent and held fits the cap of a wallet, held ≥ 0       | nothing is held                |
| restarts in a window are no more than the rule allows           | nothing lives or is in flight  |
| the generation of a process only rises                          | no timer is set                |
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from hashlib import blake2b

from vegakit.effects import CallModel, Cancel, Start
from vegakit.events import OutcomeArrived, Refused
from vegakit.ids import EffectKey
from vegakit.policy import RestartRule, RestartStrategy
from vegakit.program import (
    Action,
    AgentReply,
    Answer,
    Code,
    Event,
    Machine,
    MessageFailed,
    Post,
    ProcessPhase,
    ProcessRestarted,
    Program,
    Returned,
    Wallet,
)
from vegakit.records import from_json, to_json

_MOST_STEPS = 20_000
_LONGEST_STOP_MS = 30_000


class RunLog:
    """`lines` are what happened; `broken` is what must not have happened."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.broken: list[str] = []
        self.steps = 0
        self.charged = 0
        self._asked: dict[str, bool] = {}
        self._paths: dict[EffectKey, str] = {}
        self._generations: dict[str, int] = {}
        self._restarts: dict[str, list[int]] = defaultdict(list)

    @property
    def digest(self) -> str:
        return blake2b("\n".join(self.lines).encode(), digest_size=16).hexdigest()

    @property
    def unanswered(self) -> list[str]:
        return [ask for ask, answered in self._asked.items() if not answered]

    def on_step(
        self, state: Program, event: Event, actions: list[Action], now: int, stale: set[str]
    ) -> None:
        self.steps += 1
        for action in actions:
            if isinstance(action, Start):
                self._paths[action.effect.key] = str(action.effect.path)
        said = ", ".join(self._spell(action) for action in actions)
        self.lines.append(f"{now} {self._spell_event(event)}: {said}")
        for problem in self._problems(state, event, actions, now, stale):
            self.broken.append(f"step {self.steps}, {self.lines[-1][:300]}: {problem}")

    def _problems(
        self, state: Program, event: Event, actions: list[Action], now: int, stale: set[str]
    ) -> Iterator[str]:
        if self.steps > _MOST_STEPS:
            raise RuntimeError(f"the program does not come to rest: {self.lines[-1]}")
        if isinstance(event, Post) and event.message.ask and not event.message.sender:
            self._asked[event.message.ask] = False
        for action in actions:
            if isinstance(action, Answer):
                yield from self._answered(action, stale)
            elif isinstance(action, ProcessRestarted):
                yield from self._restarted(state, action, now)
        self._forget_ended(state)
        for path, process in state.processes.items():
            if process.generation < self._generations.get(path, 0):
                yield f"{path} went back to generation {process.generation}"
            self._generations[path] = process.generation
            for message_id, send in (process.sends or {}).items():
                yield from _overdrawn(f"letter {message_id} of {path}", send.part)
        for path, wallet in state.wallets.items():
            yield from _overdrawn(path, wallet)

    def _forget_ended(self, state: Program) -> None:
        """Whoever takes the name of a process that has ended is another one, and begins anew."""
        for path in self._generations.keys() - state.processes.keys():
            del self._generations[path]

    def _answered(self, answer: Answer, stale: set[str]) -> Iterator[str]:
        if self._asked.get(answer.ask, True):
            yield f"ask {answer.ask} was answered twice, or never asked"
        self._asked[answer.ask] = True
        if answer.ask in stale and isinstance(answer.outcome, Returned):
            yield f"ask {answer.ask} was answered by a life that is over"

    def _restarted(self, state: Program, news: ProcessRestarted, now: int) -> Iterator[str]:
        process = state.processes.get(news.path)
        if process is None:
            return
        if news.generation <= self._generations.get(news.path, 0):
            yield f"{news.path} was restarted as generation {news.generation}"
        supervision = state.supervisors.get(process.supervision)
        rule = process.spec.rule if supervision is None else supervision.supervisor.rule
        counted = [news.path]
        if supervision is not None and rule.strategy is RestartStrategy.RESTART:
            counted.append(f"{process.supervision} of generation {supervision.generation}")
        for who in counted:
            self._restarts[who].append(now)
            if _recent(rule, self._restarts[who], now) > rule.max_restarts:
                yield f"{who} was restarted more often than {rule} allows"

    def _spell_event(self, event: Event) -> str:
        if not isinstance(event, OutcomeArrived):
            return _spelled(event)
        return f"{event.path} {type(event.outcome).__name__} {_charged(event)}"

    def _spell(self, action: Action) -> str:
        match action:
            case Start(effect):
                return f"start {effect.path}"
            case Cancel(key):
                return f"cancel {self._paths[key]}"
            case Answer(ask, Returned(AgentReply(text))):
                return f"answer {ask} {text}"
            case Answer(ask, MessageFailed(error)):
                return f"answer {ask} {error}"
            case _:
                return _spelled(action)


_KEY = re.compile(r"\b[0-9a-f]{32}\.[0-9a-f]{32}\b")


def _spelled(said: object) -> str:
    """Without effect keys: each holds the id of its program, which no two runs share."""
    return _KEY.sub("…", f"{said}")[:200]


class CheckedMachine(Machine):
    """With `restore_every` its state goes through JSON into a fresh machine every so many steps."""

    def __init__(
        self, state: Program, code: Code, run_log: RunLog, restore_every: int | None = None
    ) -> None:
        super().__init__(state, code)
        self._code = code
        self._run_log = run_log
        self._restore_every = restore_every

    def step(self, event: Event, now: int) -> list[Action]:
        stale = self._asks_of_ended_incarnation(event)
        try:
            actions = super().step(event, now)
        except Exception as error:
            self._run_log.broken.append(f"the machine raised {error!r} at {event}"[:300])
            raise
        self._run_log.on_step(self.state, event, actions, now, stale)
        if self._restore_every and self._run_log.steps % self._restore_every == 0:
            super().__init__(from_json(Program, to_json(self.state)), self._code)
        return actions

    def _asks_of_ended_incarnation(self, event: Event) -> set[str]:
        """If this is the outcome of an effect whose life is over: all that its process is asked."""
        if not isinstance(event, OutcomeArrived):
            return set()
        flight = self.state.effects_in_flight.get(event.key)
        if flight is None or not flight.path:
            return set()
        if isinstance(flight.effect.request, CallModel):
            self._run_log.charged += _charged(event)
        process = self.state.processes[flight.path]
        if process.generation == flight.generation and process.phase is ProcessPhase.UP:
            return set()
        return {ask for ask, place in self.state.asks.items() if place.path == flight.path}


def _charged(event: OutcomeArrived) -> int:
    return 0 if isinstance(event.outcome, Refused) else event.outcome.charged


def _recent(rule: RestartRule, moments: list[int], now: int) -> int:
    """Restarts are counted when they are decided; a group is stopped first, which takes time."""
    slack_ms = 0 if rule.strategy is RestartStrategy.RESTART else _LONGEST_STOP_MS
    return sum(now - rule.window_ms + slack_ms <= at for at in moments)


def _overdrawn(whose: str, wallet: Wallet) -> Iterator[str]:
    if wallet.held < 0 or wallet.spent < 0:
        yield f"the wallet of {whose} went below nothing: {wallet}"
    if wallet.cap is not None and wallet.spent + wallet.held > wallet.cap:
        yield f"the wallet of {whose} is overdrawn: {wallet}"
