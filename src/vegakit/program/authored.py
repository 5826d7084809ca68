"""Programs that the model of an agent writes: admitted here, run below the agent, told back to it.

    call ─▶ admit ─▶ room in the part of this send? ─▶ a process with its quote as wallet ─▶ letter
              └─ Refused ─▶ the model reads why                                              │
    result, what it printed, what it spent ◀── its process ends, the rest is given back ◀────┘

Deciding is pure, so nothing of it is recorded: who replays a run finds the source in the answer of
the model, and comes to the same program. The source is kept in the state as long as its process
lives, so that a host which takes up a state makes the same bodies from it.
"""

from typing import Any, cast

import msgspec

from vegakit.agent import PlannedCall, ToolOutcome
from vegakit.authoring import Accepted, Refusal, Refused, poor, refused
from vegakit.money import Money, show
from vegakit.policy import ChildType, sanitise
from vegakit.program.actions import SpawnRefused
from vegakit.program.bodies import AgentBody, Author
from vegakit.program.commands import ProcessSpec, Spawn
from vegakit.program.core import Core
from vegakit.program.lives import Lives
from vegakit.program.mail import Fell, Mail, Outcome
from vegakit.program.purses import Purses
from vegakit.program.sources import MOST_KEPT
from vegakit.program.spawning import Spawning
from vegakit.program.state import Authored, Process, Send
from vegakit.records import digest128
from vegakit.vm import restored, text_of

__all__ = ["MOST_TRIES", "Programs", "source_in"]

MOST_TRIES = 4
"""Programs that a turn may try, for each that it may run."""
_NO_SOURCE = "it has no source; send the whole program as text in `source`"
_NO_ARGUMENTS = "`arguments` is an object with the parameters of main by name; send {} for none"


class Programs:
    def __init__(self, core: Core, lives: Lives, spawning: Spawning, purses: Purses) -> None:
        self._core = core
        self._lives = lives
        self._spawning = spawning
        self._purses = purses

    def begin(
        self,
        path: str,
        process: Process,
        letter: int,
        step: int,
        plan: PlannedCall,
        deadline_ms: int | None,
    ) -> ToolOutcome | None:
        """What the model is told at once, None if the program runs."""
        body = self._core.body_of(process)
        assert isinstance(body, AgentBody)
        author, send = body.authors[plan.call.name], (process.sends or {})[letter]
        written = source_in(plan.call.arguments)
        if isinstance(written, str):
            return _outcome(refused(Refusal.MISTAKES, written))
        source, language, arguments = written
        admitted = self._admitted(path, send, author, source, language)
        if isinstance(admitted, Refused):
            return _outcome(admitted)
        prefix = f"{process.spec.body}.{plan.call.name}!{digest128([source, language])[:16]}!"
        main = author.install(prefix, admitted)
        name = self._name(process, letter, step, plan)
        spec = ProcessSpec(main, ChildType.TEMPORARY, wallet=admitted.cost)
        made = self._spawning.spawn(Spawn(spec, name, path, session=send.session))
        if isinstance(made, SpawnRefused):
            return ToolOutcome(f"{made.error}: {made.reason}", is_error=True)
        word, now = f"{letter}.{plan.index}", self._core.now
        self._core.state.authored[made.path] = Authored(
            process.spec.body, plan.call.name, prefix, source, language, f"{path}|{word}"
        )
        self._core.state.processes[made.path].scope = send.scope
        send.programs, send.touched = send.programs + 1, True
        until = now + author.timeout_ms
        until = until if deadline_ms is None else min(until, deadline_ms)
        self._core.post(made.path, Mail(arguments, word, path, until, name))
        return None

    def on_heard(self, path: str, ask: str, outcome: Outcome) -> ToolOutcome | None:
        """None where it was no program that answered. What is left of its quote is given back
        before its agent goes on."""
        below = self._of(f"{path}|{ask}")
        if below is None:
            return None
        told = self._told(below, outcome)
        self._lives.families.end(below, kill=False)
        while self._lives.families.busy:
            self._lives.families.carry_out_next()
        return told

    def withdraw(self, path: str, letter: int, send: Send) -> None:
        for index in range(send.due):
            below = self._of(f"{path}|{letter}.{index}")
            if below is not None:
                self._lives.families.end(below, kill=False)

    def _admitted(
        self, path: str, send: Send, author: Author, source: str, language: str
    ) -> Accepted | Refused:
        send.tries += 1
        if send.programs >= author.most or send.tries > author.most * MOST_TRIES:
            return refused(
                Refusal.MANY,
                f"one turn may run {author.most} programs and try {author.most * MOST_TRIES}",
                "answer with what you have",
            )
        if (above := len(list(self._core.authored_around(path)))) > author.nested:
            return refused(
                Refusal.NESTED,
                f"programs may run programs {author.nested} deep, and {above} are around this one",
                "answer yourself, or return a list of what is to be asked",
            )
        admitted = author.admit(source, language)
        if isinstance(admitted, Refused):
            return admitted
        return poor(admitted, self._purses.room(path, send.session)) or admitted

    def _name(self, process: Process, letter: int, step: int, plan: PlannedCall) -> str:
        """By place, so that a run that is taken up again finds its answers."""
        taken = None if process.mailbox is None else process.mailbox.taken(letter)
        said = str(letter) if taken is None else taken.message.name or str(letter)
        return f"{plan.call.name}~{digest128([said, step, plan.index])[:8]}"

    def _of(self, ask: str) -> str | None:
        authored = self._core.state.authored
        return next((path for path, made in authored.items() if made.ask == ask), None)

    def _told(self, below: str, outcome: Outcome) -> ToolOutcome:
        state = self._core.state
        made, wallet = state.authored[below], self._purses.of(below)
        told: dict[str, Any] = {}
        if isinstance(outcome, Fell):
            told["error"] = f"{outcome.error}: {outcome.reason}"
        else:
            told["result"] = _result(outcome.value)
        if made.printed:
            told["printed"] = _cut(made.printed)
        # Nothing here may depend on time or on what was speculated: the model's next request holds
        # this text, and a run that goes on must come to the same request.
        account: dict[str, Any] = {"calls": made.calls}
        if wallet is not None:
            spent, quote = wallet.spent - wallet.wasted, wallet.cap or Money(0)
            account |= {"spent": show(Money(spent)), "quote": show(quote)}
        text = msgspec.json.encode(told | {"account": account}).decode()
        return ToolOutcome(sanitise(text), is_error=isinstance(outcome, Fell))


def source_in(given: object) -> tuple[str, str, dict[str, Any]] | str:
    """Source, language and arguments, or what is wrong."""
    fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    source, language = fields.get("source"), fields.get("language") or ""
    arguments: object = fields.get("arguments") or {}
    if not isinstance(source, str) or not source.strip() or not isinstance(language, str):
        return _NO_SOURCE
    if not isinstance(arguments, dict):
        return _NO_ARGUMENTS
    return source, language, cast("dict[str, Any]", arguments)


def _outcome(refusal: Refused) -> ToolOutcome:
    return ToolOutcome(sanitise(refusal.text), is_error=True)


def _result(value: object) -> object:
    """As JSON if it is short enough, else the beginning of it as text."""
    plain = _plain(value)
    text = msgspec.json.encode(plain).decode()
    return plain if len(text) <= MOST_KEPT else _cut(text)


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Money, durations and files as they are written; the rest is JSON."""
    match value:
        case list():
            return [_plain(item) for item in cast("list[Any]", value)]
        case {"$": "map", "of": pairs}:
            return {key: _plain(item) for key, item in pairs}
        case {"$": _}:
            return text_of(restored(value))
        case dict():
            return {key: _plain(item) for key, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _cut(text: str) -> str:
    if len(text) <= MOST_KEPT:
        return text
    return f"{text[:MOST_KEPT]}… ({len(text):,} characters; return or print less)"
