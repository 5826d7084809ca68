"""`vega config`: the settings, and where each came from.

`python -m vegakit.cli.config` prints the page docs/reference/configuration.md, which is made
from the same schema.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vegakit.cli.look import PIPE, Cell, Column, Look, Tone, look_of, print_json, table
from vegakit.cli.main import JSON, CommandParser
from vegakit.config import (
    SettingRow,
    config_schema,
    default_toml,
    explain,
    form_of,
    load,
    toml_of,
)
from vegakit.providers import check_provider_tables

# `vega config`: the settings, and where each came from.


def config_command(arguments: Sequence[str]) -> int:
    """Run `vega config`."""
    chosen = _parser().parse_args(arguments)
    if chosen.action == "schema":
        print_json(config_schema())
    else:
        settings = load()
        check_provider_tables(settings)
        if chosen.json:
            print_json(explain(settings))
        else:
            print(render_settings(explain(settings), look_of(sys.stdout)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega config",
        description="Show the settings and where each of them came from.",
        arguments=[JSON],
    )
    actions = parser.add_subparsers(dest="action", metavar="[schema]")
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
3. the project's file, if you [trust](#trust) its folder: the nearest `vega.toml`, from the working
   directory upward to your home,
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

Files in a folder may come from somebody else. Vega asks once for each folder:

```sh
vega trust            # this folder: shows what it would change and start, and asks
vega trust --yes DIR  # asks nothing
vega trust --list
vega trust --remove DIR
```

Trust covers the folder, everything below it, and the git worktrees of its repository. Vega records
the path and the owner of the folder in `trusted.json`, among your own data. A folder that
`vega init` makes is trusted.

| file | in a folder that you have not trusted |
|---|---|
| `vega.toml` | may lower `budget.default`; your own settings hold for everything else |
| `AGENTS.md`, `CLAUDE.md`, `GEMINI.md`, skills | instruct no agent |
| agents, commands, hooks and tools in `.vega` | are not used |
| a file of Python: a program with `@tool`, `--tools`, `vega rollout start` | is not loaded |
| a `.vega` program that uses the network, runs commands or writes files | needs your consent |

Vega says on stderr what it does not use. At a terminal, `vega run`, `vega test`, `vega code` and
`vega rollout start` show what the folder would change, and ask. Elsewhere, give them `--trust`, or
list folders in `VEGA_TRUSTED_FOLDERS`, separated as in `PATH`. Both trust everything in a folder
and record nothing.

In a trusted folder you edit programs, instructions and most settings freely. Vega asks again when
something changes that starts or decides without being named:

- a file in `.vega/agents`, `.vega/commands`, `.vega/hooks` or `.vega/tools`,
- a setting of `[providers]`, `[mcp]`, `[permissions]` or `[telemetry]`,
- what weakens the cap or moves your data: `[prices]`, a larger budget, `[ledger]`, `[journal]`,
  `[cache]`, `[audit]` and `data_dir`,
- a model of a provider that your own settings do not name.

A `.vega` program elsewhere shows what it may touch, and asks. Vega asks again when it may touch
more. `--allow net::get` grants the run what you name, without a question.

## Files of other users

In a folder that several users write to, such as `/tmp`, another user could choose the model of your
agent and instruct it. So Vega reads `vega.toml`, `AGENTS.md`, `CLAUDE.md`, `GEMINI.md`, skills and
`.git` only if they belong to you, to root, or to the owner of a folder that you trust. Vega ignores
any other, and prints a warning with the file and its owner. Trust the folder to work on files of
another user, for example as root in a container, or on a mounted folder.

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
