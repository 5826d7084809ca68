"""Whether two path rules may be about the same file: too often yes, never wrongly no.

Folders count, as making a file changes the listing of its folder. Case and the spelling of letters
do not, as on some systems they are one file. Links are not seen: who enforces paths follows them.
"""

import re
from unicodedata import normalize

__all__ = ["paths_touch"]

_WILD = re.compile(r"[*?\[]")


def paths_touch(one: str, other: str) -> bool:
    mine, theirs = _names(one), _names(other)
    if ".." in mine or ".." in theirs:
        return True
    for name, their in zip(mine, theirs, strict=False):
        if "**" in (name, their):
            return True
        if not _names_touch(name, their):
            return False
    return True


def _names(rule: str) -> list[str]:
    clean = normalize("NFKC", normalize("NFKC", rule).casefold())
    return [name for name in clean.replace("\\", "/").split("/") if name not in ("", ".")]


def _names_touch(one: str, other: str) -> bool:
    """Only what stands before the first wildcard is compared."""
    mine, theirs = _WILD.search(one), _WILD.search(other)
    if mine is None and theirs is None:
        return one == other
    start = one if mine is None else one[: mine.start()]
    their_start = other if theirs is None else other[: theirs.start()]
    return start.startswith(their_start) or their_start.startswith(start)
