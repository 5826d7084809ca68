"""Random events, keys and moments for the reducer of the terminal, without a screen: thousands of
them in seconds, on a clock that the storm turns.

A prompt line of its own stands beside it. The model of the person knows when a question came on
the screen and when a key was pressed last; only a yes that was pressed in time after both may be
an answer. All that was typed must be in the line, in what waits, or in what was begun.
"""

import random
from typing import Any

from vegakit.cli.terminal import reducer
from vegakit.cli.terminal.state import (
    Action,
    AnswerQuestion,
    BeginTurn,
    EditText,
    GiveBack,
    TurnState,
    TypedPrompt,
    ViewState,
)
from vegakit.control import Question
from vegakit.policy import InterruptKind
from vegakit.sage import EndReason, SageEnd, SageText, SageTurn

__all__ = ["ReducedStorm", "reduced_storms"]

ARMED_MS = 300


class ReducedStorm:
    """One sequence. `rules` is the module that is tested, or one with a planted fault."""

    def __init__(self, chance: random.Random, rules: Any = reducer) -> None:
        self.chance, self.rules = chance, rules
        self.state, self.now = ViewState(), 1_000_000
        self.line, self.aside = "", list[str]()
        self.begun, self.answered = list[str](), list[str]()
        self.typed: list[str] = []
        self.shown_at: int | None = None
        self.last_key = 0
        self.faults: list[str] = []
        self._number = 0

    def play(self, steps: int) -> list[str]:
        """Take random steps; return what must not be."""
        kinds = [
            *[self._types] * 3, self._sends, self._sends, self._asks, self._shows, self._shows,
            self._yes, self._yes, self._waits, self._waits, self._escapes, self._tab, self._no,
            self._talks, self._ends, self._hides,
        ]  # fmt: skip
        for _ in range(steps):
            self.chance.choice(kinds)()
        kept = " ".join([self.line, *self.aside, *self.begun, *self.answered])
        kept += " ".join(prompt.text for prompt in self.state.queue)
        self.faults += [f"{one} was lost" for one in self.typed if one not in kept]
        return self.faults

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case BeginTurn(prompt):
                    self.begun.append(prompt.text)
                    self.rules.on_event(self.state, SageTurn(1, prompt.text), self.now)
                case EditText(text):
                    self.aside.append(self.line)
                    self.line = text
                case GiveBack(text):
                    self.line = f"{text} {self.line}"
                case AnswerQuestion(answer=answer):
                    self.answered.append(str(answer))
                    self._settled()
                case _:
                    pass

    def _settled(self) -> None:
        self.shown_at = None

    def _key(self, key: str) -> bool:
        asked = self.state.asked
        moment = max(self.shown_at or 0, self.last_key)
        is_in_time = self.shown_at is not None and self.now - moment >= ARMED_MS
        actions = self.rules.on_key(self.state, key, self.now, is_draft_empty=not self.line)
        self.last_key = self.now
        if actions is None:
            return False
        said_yes = [
            one for one in actions if isinstance(one, AnswerQuestion) and one.answer is True
        ]
        if said_yes and not is_in_time:
            self.faults.append(f"{key} approved after {self.now - moment} ms")
        if said_yes and (asked is None or said_yes[0].id != asked.id):
            self.faults.append("another question was approved than the one on the screen")
        self._do(actions)
        return True

    def _types(self) -> None:
        self._number += 1
        token = f"k{self._number}."
        for letter in token:
            self.now += self.chance.randrange(1, 90)
            if not self._key(letter):
                self.line += letter
        self.typed.append(token)
        self.line += " "

    def _sends(self) -> None:
        self.now += self.chance.randrange(1, 400)
        if not self._key("enter"):
            text, self.line = self.line, ""
            self._do(self.rules.on_submit(self.state, TypedPrompt(text)))
            if not text.strip():
                return
            waits = any(prompt.text == text for prompt in self.state.queue)
            if not waits and text not in self.begun:
                self.answered.append(text)

    def _asks(self) -> None:
        self._number += 1
        text = f'main: shell {{"command":"run {self._number}"}}'
        name, kind = f"q{self._number}", InterruptKind.CONFIRMATION
        question = Question(name, kind, "main", text, self.now, None, permits=True)
        self._do(self.rules.on_question(self.state, question))

    def _shows(self) -> None:
        if self.state.asked is not None:
            self.rules.on_shown(self.state, self.state.asked, self.now)
            self.shown_at = self.now if self.shown_at is None else self.shown_at

    def _hides(self) -> None:
        self.rules.on_hidden(self.state)
        self._settled()

    def _yes(self) -> None:
        key = self.chance.choice("ya")
        if not self._key(key):
            self.line += key

    def _no(self) -> None:
        if not self._key("n"):
            self.line += "n"

    def _tab(self) -> None:
        self._key("tab")

    def _escapes(self) -> None:
        self._key("escape")

    def _waits(self) -> None:
        self.now += self.chance.choice([10, 100, 290, 299, 300, 301, 1_000])

    def _talks(self) -> None:
        if self.state.is_working:
            self.rules.on_event(self.state, SageText("word "), self.now)

    def _ends(self) -> None:
        if self.state.is_working:
            self.rules.on_event(self.state, SageEnd(EndReason.DONE), self.now)
            self.state.turn_state = TurnState.IDLE
            self._settled()
            self._do(self.rules.next_turn(self.state))


def reduced_storms(sequences: int, steps: int = 40, rules: Any = reducer) -> list[str]:
    """Play sequences; return what was found."""
    faults: list[str] = []
    for number in range(sequences):
        found = ReducedStorm(random.Random(number), rules).play(steps)
        faults += [f"sequence {number}: {fault}" for fault in found]
    return faults
