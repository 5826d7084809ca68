"""What a person or reviewer is asked, and the exact action an approval is bound to.

An action's digest covers its tool, its arguments whatever the order of their keys, their schema,
the policy in force, on whose behalf it acts, and the contents of the files it names: change one and
it is another action, which nobody approved.
"""

import re
from typing import Any

from msgspec import Struct

from vegakit.ids import Digest, InterruptId, Pid
from vegakit.policy.interrupts.kinds import InterruptKind
from vegakit.records import digest128

__all__ = ["Action", "Ask"]

# Control characters but tab and newline, half surrogates, marks that turn the direction of text,
# and invisible tags.
_MISLEADING = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\U000e0000-\U000e007f]"
)


class Action(Struct, frozen=True):
    """`contents` are digests of the files it runs or sends, by path."""

    tool: str
    arguments: Any
    schema: Digest
    policy: Digest
    principal: str
    contents: dict[str, Digest] = {}

    @property
    def digest(self) -> Digest:
        return Digest(digest128(self))


class Ask(Struct, frozen=True):
    """`expires_ms` replaces the kind's own time limit; kinds that permit need an `action`."""

    id: InterruptId
    kind: InterruptKind
    owner: Pid
    text: str
    action: Digest | None = None
    expires_ms: int | None = None

    @property
    def misleads(self) -> bool:
        """On some screen a person would read another question than the one asked."""
        return _MISLEADING.search(self.text) is not None
