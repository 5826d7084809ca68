"""Expressions of random programs: well typed, and now and then wrong when they run."""

from dataclasses import dataclass, field, replace
from random import Random

from campaigns.parallel.cast import Kind
from campaigns.parallel.oracle import PATHS

__all__ = ["Scope", "Words"]


@dataclass
class Scope:
    """What a block sees: names by kind, and which jumps it may make."""

    texts: list[str] = field(default_factory=list[str])
    numbers: list[str] = field(default_factory=list[str])
    flags: list[str] = field(default_factory=list[str])
    lists: list[str] = field(default_factory=list[str])
    maps: list[str] = field(default_factory=list[str])
    plans: list[str] = field(default_factory=list[str])
    handles: list[tuple[str, Kind]] = field(default_factory=list[tuple[str, Kind]])
    functions: list[str] = field(default_factory=list[str])
    fixed: list[str] = field(default_factory=list[str])
    """Not to be assigned: loop variables and parameters of their kind."""
    in_loop: bool = False
    depth: int = 0
    writes: bool = True
    returns: bool = True

    def inner(self, **changed: bool) -> "Scope":
        made = replace(self, depth=self.depth + 1, **changed)
        for name in (
            "texts",
            "numbers",
            "flags",
            "lists",
            "maps",
            "plans",
            "handles",
            "fixed",
        ):
            setattr(made, name, list(getattr(self, name)))
        return made

    @property
    def shown(self) -> list[str]:
        """All that has a text."""
        some = [
            *self.texts,
            *self.numbers,
            *self.lists,
            *self.plans,
            *self.maps,
            *self.flags,
        ]
        return sorted(some, key=_number)

    def assignable(self, names: list[str]) -> list[str]:
        return [name for name in names if name not in self.fixed]


def _number(name: str) -> int:
    """The older have smaller ones."""
    return int("".join(filter(str.isdigit, name)) or 0)


class Words:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self._sites = 0

    def pick(self, *choices: str) -> str:
        return self.chance.choice(choices)

    def happens(self, share: float) -> bool:
        return self.chance.random() < share

    def recent(self, names: list[str]) -> str:
        """Often one of the last, whose answer may still be missing."""
        return self.chance.choice(names[-2:] if self.happens(0.5) else names)

    def text(self, scope: Scope, depth: int = 0) -> str:
        most = 7 if depth < 2 else 3
        match self.chance.randrange(most):
            case 0:
                return self.pick('"ash"', '"oak"', '""', '"amber"')
            case 1 | 2 if scope.texts:
                return self.recent(scope.texts)
            case 3:
                return f"({self.text(scope, depth + 1)} + {self.text(scope, depth + 1)})"
            case 4:
                return f"str::upper({self.text(scope, depth + 1)})"
            case 5:
                return f'"<{{{self.number(scope, depth + 1)}}}>"'
            case 6 if scope.lists:
                return self._item(scope, depth)
            case _:
                return self.chance.choice(scope.texts) if scope.texts else '"fir"'

    def _item(self, scope: Scope, depth: int) -> str:
        xs = self.chance.choice(scope.lists)
        if self.happens(0.85):
            return f'(list::first({xs}) ?? "none")'
        return f"{xs}[{self.number(scope, depth + 1)}]"

    def number(self, scope: Scope, depth: int = 0) -> str:
        match self.chance.randrange(7 if depth < 2 else 3):
            case 0:
                return str(self.chance.randrange(4))
            case 1 | 2 if scope.numbers:
                return self.chance.choice(scope.numbers)
            case 3:
                sign = self.pick("+", "+", "+", "-", "-", "*", "*", "/")
                return f"({self.number(scope, depth + 1)} {sign} {self.number(scope, depth + 1)})"
            case 4 if scope.texts:
                return f"len({self.recent(scope.texts)})"
            case 5 if scope.maps:
                key = self.text(scope, depth + 1) if self.happens(0.1) else self.pick('"a"', '"b"')
                return f"{self.chance.choice(scope.maps)}[{key}]"
            case 6 if scope.plans:
                return f"{self.chance.choice(scope.plans)}.weight"
            case _:
                return str(self.chance.randrange(1, 4))

    def flag(self, scope: Scope, depth: int = 0) -> str:
        match self.chance.randrange(7 if depth < 2 else 3):
            case 0:
                sign = self.pick("<", ">", "==", "!=", "<=")
                return f"{self.number(scope, depth + 1)} {sign} {self.number(scope, depth + 1)}"
            case 1 if scope.flags:
                return self.chance.choice(scope.flags)
            case 2 if scope.texts:
                return f"len({self.recent(scope.texts)}) % 2 == 0"
            case 3:
                sign = self.pick("and", "or")
                return f"({self.flag(scope, depth + 1)}) {sign} ({self.flag(scope, depth + 1)})"
            case 4:
                return f"not ({self.flag(scope, depth + 1)})"
            case 5 if scope.texts:
                word = self.pick("amber", "birch", "heron", "1", "oak")
                return f'str::contains({self.recent(scope.texts)}, "{word}")'
            case 6 if scope.plans:
                return f"{self.chance.choice(scope.plans)}.sure"
            case _:
                return f"{self.number(scope, depth + 1)} < {self.number(scope, depth + 1)}"

    def items(self, scope: Scope) -> str:
        """A list of at most three texts or so."""
        match self.chance.randrange(5):
            case 0 if scope.lists:
                return f"list::take({self.chance.choice(scope.lists)}, 3)"
            case 1 if scope.plans:
                return f"{self.chance.choice(scope.plans)}.steps"
            case 2 if scope.texts:
                return f"list::take(str::words({self.chance.choice(scope.texts)}), 2)"
            case _:
                return self.pick('["l", "m"]', '["l"]', '["l", "m", "n"]', '["q", "q"]')

    def path(self, scope: Scope) -> str:
        """Known before it runs, or not."""
        known = f'"{self.chance.choice(PATHS)}"'
        if self.happens(0.7):
            return known
        other = f'"{self.chance.choice(PATHS)}"'
        return f"[{known}, {other}][math::abs({self.number(scope, 1)}) % 2]"

    def message(self, scope: Scope) -> str:
        """Each with a number of its own, so that equal requests are rare."""
        self._sites += 1
        seen = scope.shown
        told = self.chance.sample(seen, min(len(seen), self.chance.choice([0, 0, 0, 1, 1, 2])))
        return f'"{self._sites}{"".join(f" {{{name}}}" for name in told)}"'

    def money(self) -> str:
        return self.pick("$0.0002", "$0.0005", "$0.001", "$0.004", "$0.02", "$0.05", "$0.2")
