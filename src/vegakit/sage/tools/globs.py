"""Match the names of files with a glob, in time that grows no faster than pattern times name.

| in a pattern | stands for                                              |
|--------------|---------------------------------------------------------|
| `*`          | any part of one name                                    |
| `?`          | one character of a name                                 |
| `**`         | alone between slashes: any number of names, also none   |
| `{a,b}`      | `a` or `b`; braces may stand in braces                  |

All else is an ordinary character, `[` and a leading dot too: unlike a rule of `policy`, which
grants something, a search finds hidden names. The model writes the pattern and others write the
names, so nothing here may go back and forth between them.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from vegakit.errors import ToolFailed

_LONGEST, _MOST_CHOICES = 400, 64


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Return whether a path fits, as a function. Refuse a pattern that is too long or unclear."""
    if len(pattern) > _LONGEST:
        raise ToolFailed(
            f"a pattern has at most {_LONGEST} characters, and this one {len(pattern):,}; "
            "write a shorter one"
        )
    choices = [_parts(pattern, choice) for choice in _choices(pattern)]
    return partial(_any_fits, choices)


_Part = re.Pattern[str] | None
"""How one name is matched; None stands for `**`."""


def _choices(pattern: str) -> list[str]:
    """Return the patterns without braces that a pattern stands for."""
    # Each open brace holds its finished choices and the ones that are being written.
    done: list[list[str]] = [[]]
    written: list[list[str]] = [[""]]
    for character in pattern:
        if character == "{":
            done.append([])
            written.append([""])
        elif character == "," and len(written) > 1:
            done[-1] += written[-1]
            written[-1] = [""]
        elif character == "}" and len(written) > 1:
            inner = [*done.pop(), *written.pop()]
            if len(inner) * len(written[-1]) > _MOST_CHOICES:
                raise ToolFailed(
                    f"the braces of {pattern} stand for more than {_MOST_CHOICES} patterns; "
                    "write fewer"
                )
            written[-1] = [head + tail for head in written[-1] for tail in inner]
        elif character == "}":
            raise _lone_brace(pattern)
        else:
            written[-1] = [text + character for text in written[-1]]
    if len(written) > 1:
        raise _lone_brace(pattern)
    return written[0]


def _lone_brace(pattern: str) -> ToolFailed:
    return ToolFailed(f"the pattern {pattern} has a brace without its other; write {{a,b}}")


def _parts(pattern: str, choice: str) -> tuple[_Part, ...]:
    names = choice.split("/")
    if any("**" in name and name != "**" for name in names):
        raise ToolFailed(
            f"in the pattern {pattern} a ** stands beside other characters; it stands alone "
            "between slashes, as in src/**/*.py"
        )
    return tuple(None if name == "**" else _name_regex(name) for name in names)


def _name_regex(name: str) -> re.Pattern[str]:
    """Return how one name is matched. What stands between stars is found leftmost first, which is
    always right, and kept: the groups are atomic."""
    head, *rest = map(_plain_regex, name.split("*"))
    if not rest:
        return re.compile(head, re.DOTALL)
    *middle, tail = rest
    between = "".join(f"(?>.*?{part})" for part in middle if part)
    return re.compile(f"{head}{between}.*{tail}", re.DOTALL)


def _plain_regex(text: str) -> str:
    return "".join("." if character == "?" else re.escape(character) for character in text)


def _any_fits(choices: Iterable[Sequence[_Part]], path: str) -> bool:
    names = path.split("/")
    return any(_fits(parts, names) for parts in choices)


def _fits(parts: Sequence[_Part], names: Sequence[str]) -> bool:
    """On a mismatch the last `**` takes one name more; an earlier one need never."""
    at = here = after_stars = taken = 0
    while here < len(names):
        part = parts[at] if at < len(parts) else _NOTHING
        if part is None:
            at = after_stars = at + 1
            taken = here
        elif part.fullmatch(names[here]):
            at += 1
            here += 1
        elif after_stars:
            taken += 1
            at, here = after_stars, taken
        else:
            return False
    return all(part is None for part in parts[at:])


_NOTHING = re.compile(r"(?!)")
