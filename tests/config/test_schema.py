"""The types, the published schema, the default file and the examples agree."""

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.config.house import House
from vegakit.config import SettingSource, SourceKind, config_schema, default_toml, explain
from vegakit.config.layers import default_layer, layer_of
from vegakit.config.names import Name, name_of_variable, parse_name, show_name, variable_of

SCHEMA = config_schema()


def settings(schema: dict[str, Any], at: Name = ()) -> Iterator[tuple[Name, dict[str, Any]]]:
    """Every setting of the schema; free words are `free`, or a model where one is asked for."""
    target = SCHEMA["$defs"].get(schema.get("$ref", "").rpartition("/")[2], schema)
    if "examples" in schema:
        yield at, schema
    for word, inner in target.get("properties", {}).items():
        yield from settings(inner, (*at, word))
    if isinstance(free := target.get("additionalProperties"), dict):
        word = target.get("propertyNames", {}).get("examples", ["free"])[0]
        yield from settings(free, (*at, word))


ALL = dict(settings({"$ref": SCHEMA["$ref"]}))


def test_the_schema_describes_every_setting() -> None:
    """With a sentence and an example, and without null, which TOML does not have."""
    assert len(ALL) > 35
    assert all("description" in schema for schema in ALL.values())
    assert "null" not in str(SCHEMA).lower()
    assert SCHEMA["$defs"]["BudgetTable"]["additionalProperties"] is False


@pytest.mark.parametrize("name", ALL, ids=show_name)
def test_an_example_is_right(name: Name) -> None:
    """What a message tells people to write is accepted."""
    for example in ALL[name]["examples"]:
        tree: Any = example
        for word in reversed(name):
            tree = {word: tree}
        if name[2:3] != ("key",):
            assert layer_of(tree, lambda _: SettingSource(SourceKind.FLAG))[name].value == example


def test_the_default_file_is_what_holds_by_default() -> None:
    """Written into a file it changes nothing."""
    written = layer_of(tomllib.loads(default_toml()), lambda _: SettingSource(SourceKind.DEFAULT))
    assert written == default_layer()


@pytest.mark.parametrize("name", [("a",), ("models", "x.y"), ("prices", "a:b", "input"), ("", '"')])
def test_a_name_can_be_read_back(name: Name) -> None:
    """Words that are not plain stand in quotes."""
    assert parse_name(show_name(name)) == name


def test_every_plain_setting_has_a_variable() -> None:
    """The variable of a setting is the setting's."""
    plain = [row for row in default_layer() if ":" not in show_name(row)]
    assert [name_of_variable(variable_of(name)) for name in plain] == plain


def test_explain_names_value_and_place(house: House) -> None:
    """Sorted by name; what a terminal would obey is spelled out."""
    path = house.write(
        '[models]\nfast = "a:\\u001b[31mred"\n[limits.default.retry]\non = ["server"]'
    )
    rows = {row.name: (row.value, row.source) for row in explain(house.load())}
    assert list(rows) == sorted(rows)
    assert rows["models.fast"] == ("'a:\\x1b[31mred'", f"{path}:2")
    assert rows["limits.default.retry.on"] == ('["server"]', f"{path}:4")
    assert rows["budget.default"] == ("$10", "default")
