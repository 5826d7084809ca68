"""What stands between two atoms on one line: nothing, a blank, or two."""

from collections.abc import Sequence

from vegakit.lang.formatting.atoms import Atom, Landmarks
from vegakit.lang.parsing.words import GRANTS

__all__ = ["gap"]

_CLAUSES = frozenset([*GRANTS, "budget", "repeatable"])
_OPTIONS = frozenset("timeout budget limit wallet named by confirm speculate".split())
_VALUES = frozenset("name text int float money duration true false null".split())
_NONE_BEFORE = frozenset([")", "]", ",", ";", ".", "::", ":", "?"])
_NONE_AFTER = frozenset(["(", "[", ".", "::"])
_NOTHING = Atom("", "", -1, -1, 0)


def gap(
    atoms: Sequence[Atom], i: int, marks: Landmarks, braces: Sequence[int], goes_on: bool
) -> str:
    """Before atom i, which is not the first of its line. `braces` gives the place of the `{` of a
    `}`; `goes_on` is true on a line that does not begin a statement."""
    before, atom = atoms[i - 1], atoms[i]
    if "note" in {before.kind, atom.kind}:
        return " "
    if before.text in _NONE_AFTER or atom.text in _NONE_BEFORE or _is_unary(atoms, i - 1, marks):
        return ""
    if before.text == "{" or atom.text == "}":
        brace = before.at if before.text == "{" else atoms[braces[i]].at
        return "" if brace in marks.maps or before.text + atom.text == "{}" else " "
    if atom.text in {"(", "["} and _is_value(atoms, i - 1, marks, braces):
        return "" if not _takes_list_or_value(atoms, i - 1, marks, atom.text) else " "
    return "  " if _stands_apart(atoms, i, marks, goes_on) else " "


def _is_value(atoms: Sequence[Atom], i: int, marks: Landmarks, braces: Sequence[int]) -> bool:
    """A value ends here, so that what follows may cling to it or go on from it."""
    if i < 0:
        return False
    atom = atoms[i]
    if atom.text == "}":
        return atoms[braces[i]].at in marks.maps
    return atom.kind in _VALUES or atom.text in {")", "]", "?"}


def _is_unary(atoms: Sequence[Atom], i: int, marks: Landmarks) -> bool:
    """Atom i is a minus with nothing before it that could be subtracted from."""
    if atoms[i].text != "-":
        return False
    before = atoms[i - 1] if i else _NOTHING
    ends_value = before.kind in _VALUES or before.text in {")", "]", "}"}
    return not ends_value or _is_word(atoms, i - 1, marks)


def _takes_list_or_value(atoms: Sequence[Atom], i: int, marks: Landmarks, opening: str) -> bool:
    """`tools [...]`, `may [...]`, `timeout (...)`: the word is not indexed or called."""
    atom = atoms[i]
    if atom.kind != "name":
        return False
    if opening == "[" and (atom.at in marks.settings or _is_clause(atoms, i, marks)):
        return True
    return _is_word(atoms, i, marks)


def _is_word(atoms: Sequence[Atom], i: int, marks: Landmarks) -> bool:
    """A soft keyword with its value behind it."""
    atom = atoms[i]
    if atom.kind != "name" or atom.at in marks.statements:
        return False
    if atom.at in marks.settings:
        return True
    before = atoms[i - 1] if i else _NOTHING
    behind = before.kind in _VALUES or before.text in {")", "]", "}", "session"}
    return atom.text in _OPTIONS and behind


def _is_clause(atoms: Sequence[Atom], i: int, marks: Landmarks) -> bool:
    atom = atoms[i]
    before = atoms[i - 1] if i else _NOTHING
    behind = before.kind in _VALUES or before.text in {")", "]", "}", "?"}
    return atom.text in _CLAUSES and behind and not marks.starts(atom.at)


def _stands_apart(atoms: Sequence[Atom], i: int, marks: Landmarks, goes_on: bool) -> bool:
    atom = atoms[i]
    if atom.at in marks.settings:
        return atom.text != "per" and atoms[i - 1].text != ","
    return goes_on and _is_clause(atoms, i, marks)
