"""The published JSON Schema of `vega.toml`, and what it says of one setting."""

from typing import Any

import msgspec

from vegakit.config.tables import Tables
from vegakit.records import Json

__all__ = ["config_schema", "expected_of", "form_of", "plain"]

_FORMS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "a text",
    "array": "a list",
    "object": "a table",
}


def config_schema() -> dict[str, Any]:
    """For editors and for other programs: JSON Schema 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "vega.toml",
        **_without_null(plain(msgspec.json.schema(Tables))),
    }


def expected_of(annotation: Any) -> tuple[str, Any]:  # noqa: ANN401
    """The form of a setting's values in words, and an example."""
    schema = _without_null(msgspec.json.schema(annotation))
    return form_of(schema, schema.get("$defs", {})), next(iter(schema.get("examples", [])), None)


def form_of(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    target = definitions.get(schema.get("$ref", "").rpartition("/")[2], schema)
    if "enum" in target:
        return f"one of {', '.join(target['enum'])}"
    return schema.get("title") or _FORMS[target["type"]]


def plain(value: object) -> Any:  # noqa: ANN401
    """As JSON would give it back: tables are dicts, lists are lists."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _without_null(schema: Json) -> Any:  # noqa: ANN401
    """TOML has no null: a value that may be None in code is one that need not be written."""
    if isinstance(schema, list):
        return [_without_null(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned: dict[str, Any] = {
        key: _without_null(part) for key, part in schema.items() if part is not None
    }
    if [*cleaned.get("anyOf", [])][1:] == [{"type": "null"}]:
        return cleaned.pop("anyOf")[0] | cleaned
    return cleaned
