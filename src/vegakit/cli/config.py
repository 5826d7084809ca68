"""`vega config`: the settings, where each came from, and which project files are trusted.

`python -m vegakit.cli.config` prints the page docs/reference/configuration.md, which is made
from the same schema.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vegakit.cli.look import PIPE, Cell, Column, Look, Tone, look_of, print_json, table
from vegakit.cli.main import JSON, Argument, CommandParser
from vegakit.config import (
    SettingRow,
    config_schema,
    default_toml,
    explain,
    extension_files,
    form_of,
    load,
    toml_of,
    trust,
)
from vegakit.providers import check_provider_tables

# `vega config`: the settings, where each came from, and which project files are trusted.


def config_command(arguments: Sequence[str]) -> int:
    """Run `vega config`."""
    chosen = _parser().parse_args(arguments)
    if chosen.action == "trust":
        path, names = trust(chosen.file)
        is_owner = path.is_dir() and extension_files(path) is None
        extent = "with its owner" if is_owner else "as it is now"
        print(f"{path} is trusted {extent}; {_does(path, names)}")
    elif chosen.action == "schema":
        print_json(config_schema())
    else:
        settings = load()
        check_provider_tables(settings)
        if chosen.json:
            print_json(explain(settings))
        else:
            print(render_settings(explain(settings), look_of(sys.stdout)))
    return 0


def _does(path: Path, names: Sequence[str]) -> str:
    """Return what a file that is trusted now does."""
    if extension_files(path) is not None:
        return f"vega code uses {', '.join(names) or 'no file of it: there is none'}"
    if path.is_dir():
        return "files of its owner in it count as your own, also new and changed ones"
    if path.suffix == ".py":
        return "vega run, vega test and vega rollout start load its Python until it changes"
    if path.suffix != ".toml":
        return "it counts as your own file"
    return f"it sets {', '.join(names) or 'nothing that needs it'}"


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega config",
        description="Show the settings and where each of them came from.",
        arguments=[JSON],
    )
    actions = parser.add_subparsers(dest="action", metavar="[trust | schema]")
    actions.add_parser(
        "trust",
        help="trust a project's vega.toml, a program in Python, what in .vega extends vega code, "
        "or a file of another user, as it is now; or another user's folder",
        arguments=[Argument("file", nargs="?", type=Path, help="the nearest one if not given")],
    )
    actions.add_parser("schema", help="print the JSON Schema of vega.toml")
    return parser


def render_settings(rows: Sequence[SettingRow], look: Look = PIPE) -> str:
    """Return the settings as a table. What was set stands out from what holds by default."""
    columns = (Column("Setting"), Column("Value"), Column("From", drop=1, name=True))
    shorten = str if look.width is None else _from_home
    values = [shorten(row.value) for row in rows]
    cells = [
        (
            Cell(row.name, Tone.PLAIN if row.source == "default" else Tone.STRONG),
            "" if look.width and len(value) > _WIDEST_VALUE else value,
            shorten(row.source),
        )
        for row, value in zip(rows, values, strict=True)
    ]
    long = {n: ("    ", value) for n, value in enumerate(values) if not cells[n][1]}
    return table(columns, cells, look, below=long)


def _from_home(text: str) -> str:
    return text.replace(str(Path.home()), "~")


_WIDEST_VALUE = 24


# The page `docs/reference/configuration.md`, made from the schema of `vega.toml`.
#
# python -m vegakit.cli.config > docs/reference/configuration.md


_PAGE = """\
# Configuration

<!-- Made by `python -m vegakit.cli.config`; a test compares. -->

Settings come from five places; the later ones win, word by word:

1. what holds by default, [below](#what-holds-by-default),
2. your own file: `vega/vega.toml` in `$XDG_CONFIG_HOME` or `~/.config`, on Windows in `%APPDATA%`,
3. the project's file: the nearest `vega.toml`, from the working directory upward to your home,
4. the environment: `VEGA_` and a name in capitals, so `budget.default` is `VEGA_BUDGET_DEFAULT`,
5. flags: what a command or your code is told, such as `load({{"budget.default": "$5"}})`.

`vega config` shows every setting with its value and the place it came from. `vega config schema`
prints the JSON Schema of the file, for editors. An unknown word is an error, not a surprise.

In environment variables the words of a list stand between commas, and an empty variable is one that
is not set. A shell reads `"$10"` as `$1` and a zero: write `'$10'`. Names that are not plain words,
such as `openai:gpt-x`, cannot be part of a variable. OpenTelemetry's own variables, such as
`OTEL_EXPORTER_OTLP_ENDPOINT`, are settings of `[telemetry]`, unless a `VEGA_` one says otherwise.

Relative paths start at the directory of the file they are written in; `~` is your home. Vega keeps
its own files in `vega` in `$XDG_DATA_HOME` or `~/.local/share`, on Windows in `%LOCALAPPDATA%`; the
sockets of running runtimes in `vega` in `$XDG_RUNTIME_DIR`, or in `run` beside those files.

## Keys

A key is never written in a file. A file says where it is read each time a call needs it:

```toml
[providers.openai]
key = {{ env = "OPENAI_API_KEY" }}
# or the first line that a command prints; no shell reads these words:
# key = {{ command = ["pass", "show", "openai"] }}
```

In code a Python function may give it, plain or async: `load({{"providers.openai.key": function}})`.

## Trust

A project's file may come from somebody else, and it is read before you have looked at it. By itself
it may choose models, set limits and lower the budget. If it sets anything else (where keys and
prompts are sent, prices, a larger budget, files to write, a command to run), Vega refuses to start
until you have read the file and typed `vega config trust`. This records the path and the hash of
that exact file in your own directory; when the file changes, you are asked again.

A file with Python that stays Python needs the same trust: a program that has functions with
`@tool`, the file of `--tools`, and the file of `vega rollout start`. Python runs code as soon as it
loads a file. So `vega run`, `vega test` and `vega rollout start` refuse the file until you have
read it and typed `vega config trust program.py`. Vega never loads a program without such functions,
and the program needs no trust. Trust covers the named file, not the modules that the file imports.

## Files of other users

Vega reads `vega.toml`, `AGENTS.md`, `CLAUDE.md`, `GEMINI.md`, skills and `.git` only if they belong
to you or to root. In a folder that several users write to, such as `/tmp`, another user could
otherwise choose the model of your agent and instruct it. Vega ignores such a file and prints a
warning with the file, its owner, and the command that trusts it:

- `vega config trust FILE` trusts this file with this content, whoever owns it.
- `vega config trust FOLDER` trusts the owner of the folder: every file of this user in the folder
  counts as yours, with any content. Use this in a container where you are root and the project
  belongs to another user.

A link needs both owners: its own, and the owner of the file that it leads to. Windows has no such
owners, so Vega checks nothing there. Your own settings file is read whoever owns it.

## What holds by default

```toml
{defaults}
```

## All settings

`<name>` is a word that you choose.
{tables}"""


_HEAD = "| setting | meaning | form | example |\n|---|---|---|---|"


def page() -> str:
    """Return the reference page of all settings."""
    schema = config_schema()
    definitions = schema["$defs"]
    sections = _sections("", definitions["Tables"], definitions)
    return _PAGE.format(defaults=default_toml(), tables="".join(sections))


def _sections(name: str, table: dict[str, Any], definitions: dict[str, Any]) -> Iterator[str]:
    """A table's own settings, then the tables in it."""
    inner: dict[str, dict[str, Any]] = {}
    rows: list[str] = []
    for word, schema in table["properties"].items():
        if found := _table_in(f"{name}{word}", schema, definitions):
            inner |= found
        else:
            rows.append(_row(word, schema, definitions))
    if rows:
        title = f"`[{name.rstrip('.')}]`" if name else "At the top of the file"
        yield f"\n### {title}\n\n{table['description']}\n\n{_HEAD}\n" + "".join(rows)
    for below, found in inner.items():
        yield from _sections(f"{below}.", found, definitions)


def _table_in(
    name: str, schema: dict[str, Any], definitions: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return a table by its name; one whose names are free has `<name>` for them."""
    target = _resolved(schema, definitions)
    free = target.get("additionalProperties")
    if not free:
        return {name: target} if "properties" in target else {}
    inner = _resolved(free, definitions)
    if "properties" in inner:
        return {f"{name}.<name>": inner}
    return {name: {"description": f"{target['description']}.", "properties": {"<name>": free}}}


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    return definitions.get(schema.get("$ref", "").rpartition("/")[2], schema)


def _row(word: str, schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    example = toml_of(schema["examples"][0])
    form = form_of(schema, definitions)
    return f"| `{word}` | {schema['description']} | {form} | `{example}` |\n"


if __name__ == "__main__":
    print(page(), end="")
