"""What a server says it offers, taken in within bounds, and made harmless to read.

A tool is left out, with the reason, if its name or its schema holds what could not be shown to a
model as it is. Instructions, prompts, resources, icons and hints of a server are not taken in.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from vegakit.errors import LimitReached
from vegakit.ids import Digest
from vegakit.policy import sanitise
from vegakit.records import Json, canonical, digest128, from_json
from vegakit.tools.mcp.naming import unfit
from vegakit.tools.naming import folded

__all__ = ["MOST_TOOLS", "Offer", "Offered", "offer_of", "shown_schema"]

MOST_TOOLS = 128
_MOST_SCHEMA_BYTES = 32 * 1024
_MOST_DESCRIPTION_BYTES = 16 * 1024
_MOST_WORDS_BYTES = 4 * 1024
_WORDS = frozenset({"description", "title", "$comment"})
"""Of a schema, what is read and not compared."""


class Offered(Struct, frozen=True):
    """A tool as its server describes it; what is shown of it is made harmless first."""

    name: str
    description: str
    schema: Any

    @property
    def digest(self) -> Digest:
        return Digest(digest128([self.name, self.description, self.schema]))


class Offer(Struct, frozen=True):
    """`left_out` are names, made harmless, and why."""

    tools: tuple[Offered, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()


def offer_of(server: str, listed: Iterable[tuple[str, str, Any]]) -> Offer:
    """From names, descriptions and schemas."""
    found = [Offered(*one) for one in listed]
    if len(found) > MOST_TOOLS:
        raise LimitReached(
            f"{server} offers {len(found):,} tools; an agent is given at most {MOST_TOOLS} of a "
            "server: use one that offers fewer"
        )
    twins = Counter(folded(tool.name) for tool in found)
    why = {id(tool): _objection(server, tool, twins) for tool in found}
    return Offer(
        tuple(tool for tool in found if not why[id(tool)]),
        tuple((sanitise(tool.name, 200), why[id(tool)]) for tool in found if why[id(tool)]),
    )


def shown_schema(schema: Json, *, in_words: bool = False) -> Json:
    """What is read is made harmless; all else was found to be so."""
    if isinstance(schema, dict):
        return {
            key: shown_schema(part, in_words=key in _WORDS and isinstance(part, str))
            for key, part in schema.items()
        }
    if isinstance(schema, list):
        return [shown_schema(part) for part in schema]
    return sanitise(schema, _MOST_WORDS_BYTES) if in_words and isinstance(schema, str) else schema


def _objection(server: str, tool: Offered, twins: Counter[str]) -> str:
    if why := unfit(server, tool.name):
        return why
    if twins[folded(tool.name)] > 1:
        return "another tool of this server has the same name, or one that reads the same"
    if len(tool.description.encode(errors="replace")) > _MOST_DESCRIPTION_BYTES:
        return f"its description is longer than {_MOST_DESCRIPTION_BYTES:,} bytes"
    try:
        written = canonical([tool.description, tool.schema])
    except (OverflowError, RecursionError, UnicodeError, ValueError):
        return "its description or schema cannot be written as JSON"
    if len(written) > _MOST_SCHEMA_BYTES:
        return f"its description and schema are longer than {_MOST_SCHEMA_BYTES:,} bytes"
    if from_json(list[Any], written) != [tool.description, tool.schema]:
        return "its schema holds a number that is not the same when it is read back"
    if not _is_plain(tool.schema):
        return "its schema holds letters that cannot be seen"
    return ""


def _is_plain(schema: Json) -> bool:
    if isinstance(schema, dict):
        return all(
            _is_plain(key) and (_is_plain(part) or (key in _WORDS and isinstance(part, str)))
            for key, part in schema.items()
        )
    if isinstance(schema, list):
        return all(map(_is_plain, schema))
    return not isinstance(schema, str) or sanitise(schema) == schema
