"""Which state of things a call sees, as a part of its name.

A read after three writes is another call than the same read after two, and what a process answers
to its second message is not what it answers to its first. So the name of a call that depends on
such things says how many of them came before it in the program. Then a call that was begun early
under a wrong belief has another name than the one that the program makes, in this life of the host
and in the next, which finds recorded answers by their names.
"""

from vegakit.lang import Effects
from vegakit.vm.state import Strand

__all__ = ["UNCOUNTED", "changes", "count_change", "version_of"]

UNCOUNTED = -1


def changes(row: Effects) -> bool:
    """Whether a read that follows may see another world."""
    return bool(row.writes or row.posts or row.commands or row.servers or row.unknown)


def count_change(strand: Strand, row: Effects) -> None:
    if strand.changes != UNCOUNTED and changes(row):
        strand.changes += 1


def version_of(strand: Strand, row: Effects, heard: int = 0) -> str | None:
    """None when it cannot be told, as something was stepped over."""
    seen = strand.changes if row.reads or row.gets else 0
    if seen == UNCOUNTED:
        return None
    return f"#{seen}.{heard}" if seen or heard else ""
