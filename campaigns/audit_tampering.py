"""Ways to change an audit behind its back, for one who may write the file and knows how it works.

Each is given the chain as a list of links and answers with another list and what must be found.
"""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from vegakit.store import AuditFaultKind, AuditLink
from vegakit.store.audit import EMPTY, hash_of

__all__ = ["TAMPERINGS", "Tampering", "tampered"]

Tampering: TypeAlias = Callable[[list[AuditLink], random.Random], set[AuditFaultKind]]

_LINKS = "SELECT number, prev_hash, hash, entry FROM audit ORDER BY number, rowid"
_WITHOUT_CONSTRAINTS = "CREATE TABLE audit (number, prev_hash, hash, entry)"
EDITED, GAP, DUPLICATE, FORK, TRUNCATED, REWRITTEN = AuditFaultKind


def tampered(path: Path, change: Tampering, chance: random.Random) -> set[AuditFaultKind]:
    with closing(sqlite3.connect(path)) as file, file:
        links = [AuditLink(*row) for row in file.execute(_LINKS)]
        expected = change(links, chance)
        file.execute("DROP TABLE audit")
        file.execute(_WITHOUT_CONSTRAINTS)
        file.executemany("INSERT INTO audit VALUES (?, ?, ?, ?)", links)
    return expected


def _some(links: list[AuditLink], chance: random.Random) -> int:
    return chance.randrange(len(links))


def _other_text(link: AuditLink, chance: random.Random) -> str:
    at = chance.randrange(len(link.text))
    letter = chance.choice([c for c in 'abc123 "{}é\n' if c != link.text[at]])
    return link.text[:at] + letter + link.text[at + 1 :]


def _rehashed(links: list[AuditLink], start: int = 0) -> None:
    """As if what stands there from `start` had been appended so."""
    prev_hash = links[start - 1].hash if start else EMPTY.hash
    for at in range(start, len(links)):
        made = hash_of(at + 1, prev_hash, links[at].text)
        links[at] = AuditLink(at + 1, prev_hash, made, links[at].text)
        prev_hash = made


def edit_a_text(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    at = _some(links, chance)
    links[at] = links[at]._replace(text=_other_text(links[at], chance))
    return {EDITED}


def edit_a_hash(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    at = _some(links, chance)
    links[at] = links[at]._replace(hash=hash_of(0, "", str(chance.random())))
    return {EDITED}


def edit_a_link(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    at = _some(links, chance)
    links[at] = links[at]._replace(prev_hash=hash_of(0, "", str(chance.random())))
    return {EDITED, FORK}


def store_a_text_as_bytes(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    at = _some(links, chance)
    links[at] = links[at]._replace(text=links[at].text.encode())  # pyright: ignore[reportArgumentType]
    return {EDITED}


def lose_a_number(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    at = _some(links, chance)
    links[at] = links[at]._replace(number=None)  # pyright: ignore[reportArgumentType]
    return {EDITED}


def delete_one(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    at = chance.randrange(len(links) - 1)
    del links[at]
    return {GAP}


def delete_the_end(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    del links[-chance.randrange(1, len(links)) :]
    return {TRUNCATED}


def delete_all(links: list[AuditLink], _chance: random.Random) -> set[AuditFaultKind]:
    links.clear()
    return {TRUNCATED}


def swap_two_texts(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    one, other = chance.sample(range(len(links)), 2)
    texts = links[one].text, links[other].text
    links[one], links[other] = (
        links[one]._replace(text=texts[1]),
        links[other]._replace(text=texts[0]),
    )
    return {EDITED}


def swap_two_entries(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    one, other = chance.sample(range(len(links)), 2)
    here, there = links[one], links[other]
    links[one] = there._replace(number=here.number)
    links[other] = here._replace(number=there.number)
    return {EDITED, FORK}


def repeat_one(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    at = _some(links, chance)
    links.insert(at, links[at])
    return {DUPLICATE}


def fork_beside_one(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    """A second entry of the same number, with a hash that fits."""
    at = _some(links, chance)
    link, text = links[at], _other_text(links[at], chance)
    links.insert(at + 1, link._replace(text=text, hash=hash_of(link.number, link.prev_hash, text)))
    return {FORK}


def fork_at_the_end(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    """A next entry that follows an older one."""
    older, number = links[chance.randrange(len(links) - 1)], len(links) + 1
    links.append(AuditLink(number, older.hash, hash_of(number, older.hash, older.text), older.text))
    return {FORK}


def rehash_one(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    at = chance.randrange(len(links) - 1)
    link, text = links[at], _other_text(links[at], chance)
    links[at] = link._replace(text=text, hash=hash_of(link.number, link.prev_hash, text))
    return {FORK}


def rewrite_from_one_on(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    at = _some(links, chance)
    links[at] = links[at]._replace(text=_other_text(links[at], chance))
    _rehashed(links, at)
    return {REWRITTEN}


def delete_one_and_close_the_gap(
    links: list[AuditLink], chance: random.Random
) -> set[AuditFaultKind]:
    at = _some(links, chance)
    del links[at]
    _rehashed(links, at)
    return {TRUNCATED}


def put_another_end(links: list[AuditLink], chance: random.Random) -> set[AuditFaultKind]:
    """Cut off, then made as long as it was, or longer."""
    at = _some(links, chance)
    more = chance.randrange(3)
    links[at:] = [link._replace(text='{"at_ms":0}') for link in [*links[at:], *links[:more]]]
    _rehashed(links, at)
    return {REWRITTEN}


TAMPERINGS: dict[str, Tampering] = {
    change.__name__: change
    for change in (
        edit_a_text,
        edit_a_hash,
        edit_a_link,
        store_a_text_as_bytes,
        lose_a_number,
        delete_one,
        delete_the_end,
        delete_all,
        swap_two_texts,
        swap_two_entries,
        repeat_one,
        fork_beside_one,
        fork_at_the_end,
        rehash_one,
        rewrite_from_one_on,
        delete_one_and_close_the_gap,
        put_another_end,
    )
}
