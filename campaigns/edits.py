"""Edits and patches over our own sources: each is right, or refused with what to do; none is
misapplied.

    python -m campaigns.edits [CASES] [SEED]

Some lines of a source are changed, and the change is given as a model gives it: one replacement,
several in one call, or a patch. The file has other line endings, blanks, accents or text than the
model saw. What is right is worked out here from lines and places, without the code under test: the
place is known, and nobody has to look for it.

| figure     | meaning                                                             |
|------------|---------------------------------------------------------------------|
| right      | the file is what it should be, byte by byte                         |
| refused    | nothing was changed, and the reason says what to do                 |
| unhelpful  | nothing was changed, and the reason does not say what to do         |
| misapplied | the file was changed otherwise, or where only a refusal was right   |
"""

import ast
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple
from unicodedata import normalize

from vegakit.errors import ToolFailed
from vegakit.sage import apply_parts, read_patch, replace_each

__all__ = ["CONDITIONS", "FORMS", "Case", "World", "main", "outcome_of"]

SOURCES = sorted((Path(__file__).parents[1] / "src" / "vegakit").rglob("*.py"))
CHANGED = "# changed by an edit"
LONG = 4_000
HELPFUL = re.compile(
    r"; (add|copy|join|leave|put|read|say|send|use|write|the file may have changed: read it again)"
)
Signed = tuple[str, str]
Form = Literal["NFC", "NFD"]
_BOTH: tuple[Form, Form] = ("NFC", "NFD")


# A change as a person would describe it: which lines, and what stands there then.


class Place(NamedTuple):
    """Lines of a file from `at` on, each with the sign of what happens to it."""

    at: int
    lines: tuple[Signed, ...]

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "-"]

    @property
    def end(self) -> int:
        return self.at + len(self.old)


@cache
def source(number: int) -> tuple[str, ...]:
    path = SOURCES[number % len(SOURCES)]
    return tuple(path.read_text(encoding="utf-8").split("\n")[:-1])


@cache
def long_source(number: int) -> tuple[str, ...]:
    lines: list[str] = []
    while len(lines) < LONG:
        lines += source(number)
        number += 1
    return tuple(lines)


class Case:
    """A file and places to change in it, none of which touch."""

    def __init__(self, seed: int, form: str, *, is_long: bool = False) -> None:
        self.chance = random.Random(f"{seed} {form}")
        self.form = form
        self.lines = (long_source if is_long else source)(seed * 7)
        wanted = 1 if form == "replacement" else self.chance.randint(2, 4)
        self.places: list[Place] = []
        for _ in range(4 * wanted):
            place = self._place()
            if (
                len(self.places) < wanted
                and any(place.old)
                and all(place.end < other.at or other.end < place.at for other in self.places)
            ):
                self.places.append(place)
        self.anchors = [
            _anchors(self.lines, place) if form == "patch" and self.chance.random() < 0.9 else []
            for place in self.places
        ]

    def _place(self) -> Place:
        size = self.chance.randint(1, 6)
        at = self.chance.randrange(max(1, len(self.lines) - size))
        old = self.lines[at : at + size]
        which = self.chance.randrange(len(old)) if old else 0
        line = old[which] if old else ""
        indent = line[: len(line) - len(line.lstrip())]
        how = self.chance.choice(["change", "insert", "drop"])
        made: list[Signed] = []
        for number, text in enumerate(old):
            if number == which and how != "drop":
                made.append(("+", indent + CHANGED))
            is_gone = number == which and (how == "change" or (how == "drop" and len(old) > 1))
            made.append(("-" if is_gone else " ", text))
        if all(sign == " " for sign, _ in made):
            made.append(("+", indent + CHANGED))
        return Place(at, tuple(made))

    def accent(self) -> None:
        """Put accents on the whole file, and on what is to change in it."""
        self.lines = tuple(_accented(line) for line in self.lines)
        self.places = [
            Place(place.at, tuple((sign, _accented(text)) for sign, text in place.lines))
            for place in self.places
        ]
        self.anchors = [[_accented(anchor) for anchor in anchors] for anchors in self.anchors]

    # What the model writes.

    def edits(self, spell: Callable[[str], str]) -> list[tuple[str, str]]:
        return [(spell("\n".join(place.old)), spell("\n".join(place.new))) for place in self.places]

    def patch(self, spell: Callable[[str], str]) -> str:
        made = ["*** Begin Patch", "*** Update File: a.py"]
        for place, anchors in zip(self.places, self.anchors, strict=True):
            made += [f"@@ {anchor}" for anchor in anchors] or ["@@"]
            made += [f"{sign}{text}" for sign, text in place.lines]
        return spell("\n".join([*made, "*** End Patch", ""]))

    def copies(self, place: Place, lines: Sequence[str]) -> int:
        """How often the old text of a place stands in these lines, as this form looks for it."""
        old, size = place.old, len(place.old)
        if self.form == "patch":
            return sum([*lines[at : at + size]] == old for at in range(len(lines) - size + 1))
        text, sought = "\n".join(lines) + "\n", "\n".join(old)
        return sum(text.startswith(sought, at) for at in range(len(text)))


def _anchors(lines: Sequence[str], place: Place) -> list[str]:
    """The heads of the blocks that a place is in, as Python itself sees them."""
    try:
        parsed = ast.parse("\n".join(lines))
    except SyntaxError:  # sources put together begin with imports of the future
        return []
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    around = [
        node
        for node in ast.walk(parsed)
        if isinstance(node, kinds)
        and node.lineno <= place.at
        and place.end <= (node.end_lineno or 0)
    ]
    around.sort(key=lambda node: node.lineno)
    return [lines[node.lineno - 1].strip() for node in around]


# What the file is really like. `wanted` is None where nothing but a refusal is right.


class World(NamedTuple):
    """A file as it is, as it should be, and how the model spells what it writes."""

    file: str
    wanted: str | None
    spell: Callable[[str], str] = str


def _same(text: str) -> str:
    return text


def build(
    case: Case,
    *,
    decorate: Callable[[str], str] = _same,
    written: Callable[[str], str] = _same,
    ending: str = "\n",
    is_ended: bool = True,
    spell: Callable[[str], str] = _same,
) -> World:
    """A file whose lines are all decorated; lines that come are written as this file writes its
    own, those that stay are left."""
    lines = [decorate(line) for line in case.lines]
    whole = "\n".join(lines) + "\n"
    made, at = list[str](), 0
    for place in sorted(case.places):
        made += lines[at : place.at]
        made += _segment(case, place, lines, whole, written, spell)
        at = place.end
    made += lines[at:]
    file, wanted = (ending.join([*part, ""]) for part in (lines, made))
    cut = 0 if is_ended else len(ending)
    return World(file[: len(file) - cut], wanted[: len(wanted) - cut], spell)


def _segment(
    case: Case,
    place: Place,
    lines: list[str],
    whole: str,
    written: Callable[[str], str],
    spell: Callable[[str], str],
) -> list[str]:
    there = lines[place.at : place.end]
    old, new = (spell("\n".join(part)) for part in (place.old, place.new))
    if case.form != "patch" and whole.count(old) == 1:
        # It fits as it is, in the middle of lines, too: what is around it stays.
        return "\n".join(there).replace(old, new).split("\n")
    as_written = spell if "\n".join(there) == old else written
    staying = iter(there)
    made: list[str] = []
    for sign, text in place.lines:
        line = as_written(text) if sign == "+" else next(staying)
        made += [] if sign == "-" else [line]
    return made


def plain(case: Case) -> World:
    return build(case)


def crlf(case: Case) -> World:
    """The model sees no carriage returns."""
    return build(case, ending="\r\n")


def tabs(case: Case) -> World:
    """The file is indented with tabs, and the model writes four blanks for each."""
    return build(case, decorate=_tabbed, written=_tabbed)


def trailing(case: Case) -> World:
    """Lines end with blanks that the model leaves out; those that it does not change keep them."""
    return build(case, decorate=_padded)


def unended(case: Case) -> World:
    """The file has no newline at its end."""
    return build(case, is_ended=False)


def all_at_once(case: Case) -> World:
    return build(
        case,
        decorate=lambda line: _padded(_tabbed(line)),
        written=_tabbed,
        ending="\r\n",
        is_ended=False,
    )


def nfd(case: Case) -> World:
    """Accents are two characters in the file, and one in what the model writes."""
    return _in_form(case, "NFD", "NFC")


def nfc(case: Case) -> World:
    """Accents are one character in the file, and two in what the model writes."""
    return _in_form(case, "NFC", "NFD")


def both_forms(case: Case) -> World:
    """Accents are one character in every other line; the model writes them as one. A place with
    both has no form that a new line could be written in."""
    case.accent()
    lines = [normalize(_BOTH[n % 2], line) for n, line in enumerate(case.lines)]
    file, wanted, at = "\n".join([*lines, ""]), list[str](), 0
    for place in sorted(case.places):
        there = lines[place.at : place.end]
        forms: list[Form] = [f for f in _BOTH if all(normalize(f, x) == x for x in there)]
        if not forms:
            return World(file, None, _composed)
        staying = iter(there)
        wanted += lines[at : place.at]
        for sign, text in place.lines:
            line = normalize(forms[0], text) if sign == "+" else next(staying)
            wanted += [] if sign == "-" else [line]
        at = place.end
    return World(file, "\n".join([*wanted, *lines[at:], ""]), _composed)


def twice(case: Case) -> World:
    """A place is there a second time, at the end of the file: where no block is named, no answer is
    right but none."""
    copy = case.places[0].old
    file = "\n".join([*case.lines, *copy, ""])
    right = build(case)
    is_named = bool(case.anchors[0])
    wanted = "\n".join([*(right.wanted or "").split("\n")[:-1], *copy, ""]) if is_named else None
    return World(file, wanted)


def stale(case: Case) -> World | None:
    """A line of a place was changed since the model read it. Equal lines in another block than the
    one that is named are not what is meant."""
    place, anchors = case.places[-1], case.anchors[-1]
    at = max(range(len(place.old)), key=lambda number: len(place.old[number].strip()))
    line = place.old[at]
    if len(line.strip()) < 4:
        return None
    if not anchors and case.copies(place, case.lines) != 1:
        return None  # it could not have been told apart when the model read it, either
    if anchors and _copies_in_block(case, place) != 1:
        return None
    start = len(line) - len(line.strip()) // 2 - 1
    lines = list(case.lines)
    lines[place.at + at] = f"{line[:start]}§{line[start:]}"
    return World("\n".join([*lines, ""]), None)


def shifted(case: Case) -> World:
    """Lines were put before all places since the model read the file: the edit is still right."""
    right = build(case)
    return World(f"first\n{right.file}", f"first\n{right.wanted}")


def deeper(case: Case) -> World | None:
    """The lines of a place are four blanks deeper by now: they may be another place."""
    place = case.places[0]
    if not all(text.strip() for text in place.old) or case.copies(place, case.lines) != 1:
        return None
    if case.form != "patch" and len(place.old) == 1:
        return None  # a part of a line fits at any depth
    lines = [
        f"    {line}" if place.at <= at < place.end else line for at, line in enumerate(case.lines)
    ]
    return World("\n".join([*lines, ""]), None)


def _copies_in_block(case: Case, place: Place) -> int:
    head = next(
        at for at in range(place.at, -1, -1) if case.lines[at].strip() == case.anchors[-1][-1]
    )
    below = list(case.lines[head:])
    depth = len(case.lines[head]) - len(case.lines[head].lstrip())
    inside = [below[0]]
    for line in below[1:]:
        if (
            line.strip()
            and len(line) - len(line.lstrip()) <= depth
            and line.strip()[0] not in ")]}"
        ):
            break
        inside.append(line)
    return case.copies(place, inside)


def _in_form(case: Case, form: Form, spelled: Form) -> World:
    case.accent()
    return build(
        case,
        decorate=lambda line: normalize(form, line),
        written=lambda line: normalize(form, line),
        spell=lambda said: normalize(spelled, said),
    )


def _composed(text: str) -> str:
    return normalize("NFC", text)


def _accented(line: str) -> str:
    return line.replace("e", "é").replace("u", "ü")


def _tabbed(line: str) -> str:
    blanks = len(line) - len(line.lstrip(" "))
    return "\t" * (blanks // 4) + " " * (blanks % 4) + line.lstrip(" ")


def _padded(line: str) -> str:
    return f"{line}  " if line else line


FORMS = ("replacement", "several", "patch")
CONDITIONS: dict[str, Callable[[Case], World | None]] = {
    one.__name__: one
    for one in (
        plain,
        crlf,
        tabs,
        trailing,
        unended,
        all_at_once,
        nfd,
        nfc,
        both_forms,
        twice,
        stale,
        shifted,
        deeper,
    )
} | {"long": plain}
"""`long` is a file of 4,000 lines."""


# Trying a case.


def outcome_of(seed: int, form: str, condition: str) -> str:
    """`right`, `refused`, `unhelpful`, `misapplied`; empty where there is no such case."""
    case = Case(seed, form, is_long=condition == "long")
    world = CONDITIONS[condition](case) if case.places else None
    if world is None:
        return ""
    try:
        made = apply(case, world)
    except ToolFailed as refused:
        said = str(refused)
        # What does not fit any more is to be read again; another place may fit twice before that.
        is_told = condition != "stale" or "read it again" in said or " at lines " in said
        is_helpful = HELPFUL.search(said) and is_told
        return "refused" if is_helpful else "unhelpful"
    return "right" if made == world.wanted else "misapplied"


def apply(case: Case, world: World) -> str:
    if case.form == "patch":
        (file,) = read_patch(case.patch(world.spell))
        return apply_parts(world.file, file.parts, file.path).text
    return replace_each(world.file, case.edits(world.spell), "a.py")[-1].text


def cases(count: int, seed: int) -> Iterator[tuple[int, str, str]]:
    each = max(1, -(-count // (len(FORMS) * len(CONDITIONS))))
    for form in FORMS:
        for condition in CONDITIONS:
            for number in range(each):
                yield seed + number, form, condition


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4_200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    found: Counter[tuple[str, str, str]] = Counter()
    for one, form, condition in cases(count, seed):
        if ended := outcome_of(one, form, condition):
            found[form, condition, ended] += 1
            if ended in ("misapplied", "unhelpful"):
                print(f"{ended}: seed {one}, {form}, {condition}")
    ends = ("right", "refused", "unhelpful", "misapplied")
    for form in FORMS:
        for condition in CONDITIONS:
            row = [f"{found[form, condition, ended]:>6} {ended}" for ended in ends]
            print(f"{form:12} {condition:12}", *row)
    totals = {ended: sum(n for key, n in found.items() if key[2] == ended) for ended in ends}
    print(f"{sum(totals.values())} edits:", ", ".join(f"{n} {name}" for name, n in totals.items()))
    return int(bool(totals["misapplied"] or totals["unhelpful"]))


if __name__ == "__main__":
    sys.exit(main())
