r"""Paths and the globs that allow them, both named from the project root.

| in a rule | stands for                                                        |
|-----------|-------------------------------------------------------------------|
| `src`     | the name itself; `SRC` is another name                            |
| `*`       | any part of one name: `*.md` is a file at the root                |
| `**`      | alone between slashes: any number of names, also none             |

No wildcard stands for a leading dot, so `**` reaches neither `.git/config` nor `.env`: hidden
names are written out, as in `.github/**`. Everything else, `[` and `{` too, is an ordinary
character.

| in a path                              | decided                                               |
|----------------------------------------|-------------------------------------------------------|
| `./a//b/`                              | `a/b`: empty names and single dots are dropped        |
| `.`                                    | the root itself                                       |
| `SRC/a` where `src/**` is allowed      | another path: not allowed                             |
| `/a`                                   | refused: absolute                                     |
| `a/../b`                               | refused: what `..` means depends on links             |
| `-a`, `@a`, `$A/b` (first character)   | refused: an option, a list of arguments, a variable   |
| `\`, `:`, `%`, `~`, `* ? " < > |`      | refused: separators, streams, encodings, aliases      |
| `a./b`, `a /b`, ` a/b`                 | refused: some systems drop the dot or the space       |
| control, bidi, invisible characters    | refused                                               |
| not in NFKC form                       | refused: it turns into another name when normalised   |
| long or deep                           | refused: 512 characters, 64 names, 255 bytes a name   |

This is the decision about names. That a name is not a link, a device or swapped between check
and use is the business of whoever opens it.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import takewhile

from vegakit.errors import InvalidRuleError
from vegakit.policy.capability.access import Ambiguities, Denied, first_ambiguity, refused, shown

_MAX_CHARACTERS = 512
_MAX_NAMES = 64
_MAX_NAME_BYTES = 255

_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
"""Shown as nothing, though Unicode calls them printable."""

_PATH_AMBIGUITIES: Ambiguities = (
    (lambda text: not text, "it is empty; the project root is '.'"),
    (lambda text: len(text) > _MAX_CHARACTERS, f"it is longer than {_MAX_CHARACTERS} characters"),
    (lambda text: not text.isprintable(), "it holds a control or invisible character"),
    (_INVISIBLE.search, "it holds a control or invisible character"),
    (
        lambda text: not unicodedata.is_normalized("NFKC", text),
        "it turns into another name when normalised; write it in NFKC form",
    ),
    (re.compile(r"^/").search, "it is absolute; name it from the project root"),
    (re.compile(r"(^|/)\.\.(/|$)").search, "it steps upwards; name it from the project root"),
    (re.compile(r"^[-@$]").search, "a first '-', '@' or '$' reads as something else than a name"),
    (
        re.compile(r'[\\:%~*?"<>|]').search,
        r"""one of \ : % ~ * ? " < > | makes it another path to some program""",
    ),
    (re.compile(r"[^/][. ](/|$)").search, "a name ends in a dot or space, which some systems drop"),
    (re.compile(r"(^|/) ").search, "a name starts with a space"),
    (
        lambda text: any(len(name.encode()) > _MAX_NAME_BYTES for name in text.split("/")),
        f"a name is longer than {_MAX_NAME_BYTES} bytes",
    ),
    (lambda text: text.count("/") >= _MAX_NAMES, f"it is deeper than {_MAX_NAMES} names"),
)


def clean_path(text: str) -> str | Denied:
    """Return the path without empty names and dots, or a denial if it could be read in two ways."""
    why = first_ambiguity(text, _PATH_AMBIGUITIES)
    if why is not None:
        return refused("path", text, why)
    return "/".join(name for name in text.split("/") if name not in {"", "."}) or "."


def check_path_rule(rule: str) -> None:
    """Raise `InvalidRuleError` unless the rule can fit a clean path."""
    without_stars = rule.replace("*", "x")
    why = first_ambiguity(without_stars, _PATH_AMBIGUITIES)
    if why is not None:
        raise InvalidRuleError(f"{shown(rule)} allows no path: {why}")
    if clean_path(without_stars) != without_stars:
        raise InvalidRuleError(
            f"{shown(rule)} has an empty or '.' name in it; write 'src/**' for all that is in src"
        )
    if any("**" in name and name != "**" for name in rule.split("/")):
        raise InvalidRuleError(f"{shown(rule)}: '**' stands alone between slashes, as in 'src/**'")


def path_fits(rule: str, path: str) -> bool:
    """Both clean. On a mismatch the last `**` takes one name more; an earlier one need never."""
    parts, names = _names(rule), _names(path)
    at = here = after_star = taken = 0
    while here < len(names):
        part = parts[at] if at < len(parts) else ""
        if part == "**":
            at = after_star = at + 1
            taken = here
        elif _names_meet(part, names[here]):
            at += 1
            here += 1
        elif after_star and _names_meet("**", names[taken]):
            taken += 1
            at, here = after_star, taken
        else:
            return False
    return all(part == "**" for part in parts[at:])


def rules_touch(one: str, other: str) -> bool:
    """Whether a path of one may be, hold or lie in a path of the other.

    Folders count because making a file changes the listing of its folder, and moving a folder moves
    its files. So all that matters stands before `**`: in `**/*.py` and `**/*.md`, `a.py` may be a
    folder. Case does not matter, because on some systems `A` and `a` are one file.
    """
    return all(map(_names_meet, _before_stars(one), _before_stars(other)))


def _names(path: str) -> Sequence[str]:
    return () if path == "." else path.split("/")


def _before_stars(rule: str) -> Iterator[str]:
    return takewhile(lambda part: part != "**", _names(rule.casefold()))


def _names_meet(x: str, y: str) -> bool:
    if x.startswith(".") != y.startswith("."):
        return False
    if "*" not in y:
        return _name_fits(x, y)
    if "*" not in x:
        return _name_fits(y, x)
    return _ends_meet(x, y)


def _name_fits(pattern: str, name: str) -> bool:
    """Parts between stars are found leftmost first, which is always right and never goes back."""
    head, *rest = pattern.split("*")
    if not rest:
        return pattern == name
    *middle, tail = rest
    at, end = len(head), len(name) - len(tail)
    if at > end or not (name.startswith(head) and name.endswith(tail)):
        return False
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def _ends_meet(x: str, y: str) -> bool:
    """Two patterns with stars share a name when their ends agree: the stars take all between."""
    x_head, y_head = x[: x.index("*")], y[: y.index("*")]
    x_tail, y_tail = x[x.rindex("*") + 1 :], y[y.rindex("*") + 1 :]
    heads_agree = x_head.startswith(y_head) or y_head.startswith(x_head)
    return heads_agree and (x_tail.endswith(y_tail) or y_tail.endswith(x_tail))
