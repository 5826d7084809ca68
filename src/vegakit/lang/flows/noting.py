"""The notes of a walk: every step, and the links between them, each with its reason.

Sets of steps are numbers, a bit for each.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from vegakit.lang.flows.acts import Act, clash, is_strong, may_be_one
from vegakit.lang.flows.records import FlowLink, FlowStep, LinkKind
from vegakit.lang.steps import took

__all__ = ["Noted", "Notes", "bits"]


def bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(slots=True)
class Noted:
    """`before` is all that it waits for, through others too; `waits`: for a value, or for a round
    before."""

    step: FlowStep
    act: Act
    before: int = 0
    waits: bool = False


@dataclass(slots=True)
class Notes:
    """Links only grow, so a loop may be walked as often as one likes."""

    noted: list[Noted] = field(default_factory=list)
    _links: dict[tuple[int, int, LinkKind, int | None], str] = field(default_factory=dict)

    def link(
        self, before: int, after: int, why: LinkKind, text: str, round_of: int | None = None
    ) -> None:
        took()
        key = before, after, why, round_of
        if why is LinkKind.NEEDS:
            names = {*self._links.get(key, "").split(", "), text} - {""}
            text = ", ".join(sorted(names))
        self._links[key] = text
        noted = self.noted[after]
        noted.waits |= why is LinkKind.NEEDS or round_of is not None
        if round_of is None and before != after:
            noted.before |= self.noted[before].before | 1 << before

    def order(self, number: int, passed: int, text: str) -> None:
        """After all that the program has passed when it comes here."""
        known = self.noted[number].before | 1 << number
        for before in bits(self._last_of(passed) & ~known):
            self.link(before, number, LinkKind.ORDER, text)

    def _last_of(self, mask: int) -> int:
        """Those that no other of them waits for."""
        covered = 0
        took(mask.bit_count() // 4)
        for one in bits(mask):
            covered |= self.noted[one].before
        return mask & ~covered

    def beside(self, number: int, seen: int, passed: int) -> None:
        """What it may not overtake of what it has seen."""
        for before in self._rivals(number, seen):
            self._link_same(before, number)
            text = self._clash(before, number)
            if text and self.noted[before].act.later:
                self.order(number, passed, text)
            elif text:
                self.link(before, number, LinkKind.CONFLICT, text)

    def _rivals(self, number: int, among: int) -> Iterator[int]:
        act = self.noted[number].act
        for before in bits(among & ~(1 << number)):
            took()
            other = self.noted[before].act
            if is_strong(act.row) or is_strong(other.row) or act.agents & other.agents:
                yield before

    def _clash(self, before: int, number: int) -> str:
        one, other = self.noted[before], self.noted[number]
        return clash(one.act, other.act) if one.step.lasts and other.step.lasts else ""

    def _link_same(self, before: int, number: int, round_of: int | None = None) -> None:
        if may_be_one(self.noted[before].act, self.noted[number].act):
            self.link(before, number, LinkKind.SAME, "same process", round_of)

    def carry(self, loop: int, body: int) -> None:
        """What a round of the loop waits for of the round before."""
        last = self._last_of(sum(1 << one for one in bits(body) if self._holds_up(one)))
        bars = [one for one in bits(body) if self.noted[one].act.barrier]
        for number in bits(body):
            text = self.noted[number].step.order
            for before in bits(last) if text else ():
                self.link(before, number, LinkKind.ORDER, text, loop)
            for before in (*self._rivals(number, body), number):
                self._carry_rival(before, number, loop, body)
            for before in bars:
                self.link(before, number, LinkKind.BARRIER, self.barrier_text(before), loop)

    def _carry_rival(self, before: int, number: int, loop: int, body: int) -> None:
        if not all(self._is_fresh(one, loop, body) for one in (before, number)):
            self._link_same(before, number, loop)
        text = self._clash(before, number)
        if text and not self.noted[before].act.later:
            self.link(before, number, LinkKind.CONFLICT, text, loop)

    def _holds_up(self, number: int) -> bool:
        noted = self.noted[number]
        return not noted.act.later and not noted.step.rare

    def _is_fresh(self, number: int, loop: int, body: int) -> bool:
        """Whether the process it asks is another one in every round."""
        made = self.noted[number].act.handles or frozenset()
        return bool(made) and all(body >> one & 1 if one >= 0 else one == ~loop for one in made)

    def barrier_text(self, number: int) -> str:
        noted = self.noted[number]
        return f"barrier: {noted.act.barrier} at line {noted.step.line}"

    def done(self) -> tuple[tuple[FlowStep, ...], tuple[FlowLink, ...]]:
        links = tuple(
            FlowLink(before, after, why, _spelled(why, text), round_of)
            for (before, after, why, round_of), text in self._links.items()
        )
        return tuple(noted.step for noted in self.noted), links


def _spelled(why: LinkKind, text: str) -> str:
    if why is not LinkKind.NEEDS:
        return text
    return f"needs {text}" if text else "needs its answer"
