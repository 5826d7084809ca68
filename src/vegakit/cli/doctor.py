"""`vega doctor`: what is set up on this machine, and what to type for the rest.

A key is never shown. One that a variable holds is looked for; a command that prints one is not run,
since it may ask a person for a password.
"""

import asyncio
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires, version

from msgspec import Struct

from vegakit.cli.look import (
    PIPE,
    Cell,
    Column,
    Look,
    Sign,
    Tone,
    look_of,
    one_line,
    print_json,
    table,
)
from vegakit.cli.main import JSON, CommandParser
from vegakit.cli.models import price_age
from vegakit.config import (
    EnvironmentKey,
    KeySource,
    Settings,
    environment_variable,
    hide_secrets_of_url,
    load,
)
from vegakit.errors import SettingsError
from vegakit.providers import (
    account_variables,
    catalog_date,
    catalog_sources,
    check_provider_tables,
    missing_variables,
    needs_key,
    provider_names,
)

_PACKAGE = "vegakit"
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?")
# The lowest patch release of each Python with the fixes that SECURITY.md names.
PATCHED = {(3, 11): 18, (3, 12): 16, (3, 13): 18}
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
    chosen = CommandParser(
        prog="vega doctor",
        description="Say which providers have a key, which extras are installed, how old the "
        "prices are, and what to type for the rest. Asks no provider, and shows no key.",
        arguments=[JSON],
    ).parse_args(arguments)
    settings = load()
    check_provider_tables(settings)
    providers = [provider_finding(settings, provider) for provider in provider_names()]
    findings = [
        *providers,
        *map(_extra, extras()),
        python_finding(sys.version_info[:3]),
        _prices(),
    ]
    if chosen.json:
        print_json(findings)
    else:
        print(report(findings, look_of(sys.stdout)))
    return 0 if any(one.is_well is not False for one in providers) else 1


def provider_finding(settings: Settings, provider: str) -> Finding:
    """Return whether a provider can be asked: it has a key, and an address."""
    source, place = settings.key(provider), settings.provider(provider).base_url
    is_there, told = _is_there(source), ""
    account = account_variables(provider)
    if is_there is False and account and all(map(environment_variable, account)):
        is_there, told = True, f"keys in env {' and '.join(account)}"
    told = (
        told
        or {
            True: f"key in {source}",
            None: f"key by {source}, which is not run now",
            False: f"no key in {source}",
        }[is_there]
    )
    to_set: tuple[str, ...] = ()
    if is_there is False and not needs_key(provider):
        told += "; asked without one"
    elif is_there is False and isinstance(source, EnvironmentKey):
        to_set = (source.variable,)
    if place:
        told += f", at {one_line(hide_secrets_of_url(place))}"
    elif missing := missing_variables(provider):
        to_set += missing
        told += f"; its address needs {' and '.join(missing)}"
        is_there = False
    fix = f"export {' '.join(f'{name}=…' for name in to_set)}" if to_set else ""
    return Finding("provider", provider, is_there, told, fix)


def _is_there(source: KeySource) -> bool | None:
    if not isinstance(source, EnvironmentKey):
        return None
    try:
        return bool(asyncio.run(source.read()))
    except SettingsError:
        return False


# Extras, by what the installed packages say they need.


def extras() -> list[str]:
    """Return the extras of Vega but the one that is all of them."""
    return sorted({extra for _, _, extra in _needs(_PACKAGE) if extra} - {"all"})


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
            yield name, tuple(filter(None, re.split(r"[\s,]+", more))), extra[1] if extra else ""


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _extra(name: str) -> Finding:
    lacking = ", ".join(missing(_PACKAGE, name))
    state = f"not installed: {lacking}" if lacking else "installed"
    fix = f"pip install 'vegakit[{name}]'" if lacking else ""
    return Finding("extra", name, is_well=not lacking, told=state, fix=fix)


def python_finding(running: tuple[int, int, int]) -> Finding:
    """Return whether a release of Python has the security fixes that Vega needs."""
    lowest = (*running[:2], PATCHED.get(running[:2], 0))
    name, needed = (".".join(map(str, release)) for release in (running, lowest))
    fix = "" if running >= lowest else f"install Python {needed} or later; SECURITY.md says why"
    told = "misses security fixes that Vega needs" if fix else "has the fixes of SECURITY.md"
    return Finding("python", name, is_well=not fix, told=told, fix=fix)


# The report.


def _prices() -> Finding:
    made_from = ", ".join(f"{name} {number}" for name, number in catalog_sources().items())
    told = f"{price_age(datetime.now(tz=UTC).date())}; from {made_from}"
    return Finding("prices", catalog_date().isoformat(), is_well=True, told=told)


def report(findings: Sequence[Finding], look: Look = PIPE) -> str:
    """Return the findings for people: a row each, and below it what to type for what is missing."""
    columns = (Column(""), Column("About"), Column("Name"), Column("Found"))
    names = max(len(one.about) + len(one.name) for one in findings)
    mark = max(len(look.text(str(sign))) for sign in _SIGNS.values())
    room = None if look.width is None else look.width - names - mark - 7
    fits = [room is None or len(one.told) <= room for one in findings]
    rows = [
        (
            Cell(str(_SIGNS[one.is_well]), _TONES[one.is_well]),
            one.about,
            one.name,
            one.told if whole else "",
        )
        for one, whole in zip(findings, fits, strict=True)
    ]
    more = {
        n: (
            "    ",
            "\n".join(filter(None, ["" if fits[n] else one.told, one.fix and f"try: {one.fix}"])),
        )
        for n, one in enumerate(findings)
        if one.fix or not fits[n]
    }
    well = sum(one.is_well is not False for one in findings)
    lines = table(columns, rows, look, below=more, head=False)
    return f"{lines}\n\n{well} of {len(findings)} set up"


_SIGNS = {True: Sign.DONE, None: Sign.ASKS, False: Sign.WAITING}
_TONES = {True: Tone.OK, None: Tone.ASK, False: Tone.PLAIN}
