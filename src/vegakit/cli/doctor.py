"""`vega doctor`: what is set up on this machine, and what to type for the rest.

A key is never shown. One that a variable holds is looked for; a command that prints one is not run,
since it may ask a person for a password.
"""

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from msgspec import Struct, to_builtins

from vegakit.cli.display import PLAIN, one_line
from vegakit.cli.models import price_age
from vegakit.config import (
    EnvironmentKey,
    KeySource,
    Settings,
    hide_secrets_of_url,
    load,
    wants_colour,
)
from vegakit.errors import SettingsError
from vegakit.providers import catalog_date, catalog_sources, needs_key, provider_names

_GREEN, _YELLOW, _DIM = "\x1b[32m", "\x1b[33m", "\x1b[2m"
_PACKAGE = "vegakit"
_ALL = "all"
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?")
_ONLY_EXTRA = re.compile(r"\s*\(?\s*extra\s*==\s*['\"]([\w.-]+)['\"]\s*\)?\s*")


class Finding(Struct, frozen=True):
    """One line of the report. `is_well` is None for what cannot be known without doing it."""

    about: str
    name: str
    is_well: bool | None
    told: str
    fix: str = ""


def doctor_command(arguments: Sequence[str]) -> int:
    """Run `vega doctor`. It fails if no provider can be asked."""
    parser = argparse.ArgumentParser(
        prog="vega doctor",
        description="Say which providers have a key, which extras are installed, how old the "
        "prices are, and what to type for the rest. Asks no provider, and shows no key.",
    )
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    chosen = parser.parse_args(arguments)
    settings = load()
    keys = [_key(settings, provider) for provider in provider_names()]
    findings = [*keys, *(_extra(name) for name in extras()), _prices()]
    if chosen.json:
        print(json.dumps(_as_json(findings), indent=2, ensure_ascii=False))
    else:
        print(report(findings, colour=wants_colour(sys.stdout)))
    return 0 if any(key.is_well is not False for key in keys) else 1


def _key(settings: Settings, provider: str) -> Finding:
    source = settings.key(provider)
    is_there = _is_there(source)
    if is_there is False and not needs_key(provider):
        told = f"no key in {source}; asked without one"
        return Finding("provider", provider, is_well=False, told=told)
    place = settings.provider(provider).base_url
    at = f", at {one_line(hide_secrets_of_url(place))}" if place else ""
    told = {
        True: f"key in {source}{at}",
        None: f"key by {source}, which is not run now{at}",
        False: f"no key in {source}{at}",
    }[is_there]
    variable = source.variable if isinstance(source, EnvironmentKey) else ""
    fix = f"export {variable}=…" if is_there is False else ""
    return Finding("provider", provider, is_there, told, fix)


def _is_there(source: KeySource) -> bool | None:
    if not isinstance(source, EnvironmentKey):
        return None
    try:
        return bool(asyncio.run(_read(source)))
    except SettingsError:
        return False


async def _read(source: KeySource) -> str:
    return await source.read()


# Extras, by what the installed packages say they need.


def extras() -> list[str]:
    """Return the extras of Vega but the one that is all of them."""
    found = {extra for _, _, extra in _needs(_PACKAGE) if extra}
    return sorted(found - {_ALL})


def missing(package: str, extra: str) -> list[str]:
    """Return what an extra of a package needs and is not installed, also by way of the extras of
    what it needs."""
    lacking: list[str] = []
    for name, more, of in _needs(package):
        if of != extra:
            continue
        if not _is_installed(name):
            lacking.append(name)
        else:
            lacking += [one for inner in more for one in missing(name, inner)]
    return lacking


def _needs(package: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield each requirement: its package, the extras of that, and the extra it belongs to. One
    that holds on some systems only is left out, for it need not be here."""
    for line in requires(package) or ():
        parts = _REQUIREMENT.fullmatch(line.strip())
        if parts is None:
            continue
        name, more, marker = (part or "" for part in parts.groups())
        extra = _ONLY_EXTRA.fullmatch(marker)
        if extra or not marker:
            words = [word.strip() for word in more.split(",")]
            yield name, tuple(filter(None, words)), extra[1] if extra else ""


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _extra(name: str) -> Finding:
    lacking = missing(_PACKAGE, name)
    if not lacking:
        return Finding("extra", name, is_well=True, told="installed")
    told = f"not installed: {', '.join(lacking)}"
    return Finding("extra", name, is_well=False, told=told, fix=f"pip install 'vegakit[{name}]'")


# The report.


def _prices() -> Finding:
    made_from = ", ".join(f"{name} {number}" for name, number in catalog_sources().items())
    told = f"{price_age(datetime.now(tz=UTC).date())}; from {made_from}"
    return Finding("prices", catalog_date().isoformat(), is_well=True, told=told)


def report(findings: Sequence[Finding], *, colour: bool = False) -> str:
    """Return the findings for people: a line each, what to type after what is missing."""
    abouts = max(len(one.about) for one in findings)
    names = max(len(one.name) for one in findings)
    lines: list[str] = []
    for one in findings:
        fix = f"; type: {one.fix}" if one.fix else ""
        line = f"{_MARKS[one.is_well]} {one.about:{abouts}}  {one.name:{names}}  {one.told}{fix}"
        lines.append(f"{_COLOURS[one.is_well]}{line}{PLAIN}" if colour else line)
    return "\n".join(lines)


_MARKS = {True: "✓", None: "?", False: "–"}
_COLOURS = {True: _GREEN, None: _YELLOW, False: _DIM}


def _as_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [to_builtins(one) for one in findings]
