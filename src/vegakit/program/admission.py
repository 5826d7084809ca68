"""Admission of programs that models wrote: what they may touch and what they may cost (pure).

A rule that the source leaves open (`may [fs::read]` without paths) is narrowed to the grant. A rule
that it spells out has to lie inside the grant. The tools that open files, hosts and commands
enforce the grant exactly; admission finds a violation before the run.

Agents that the source declares get no more than the program: their models are those of the given
agents or are named in the grant, and their tools are given ones or are written in Vega in the same
source, with the capabilities of the program.

| request | result                                                                 |
|---------|------------------------------------------------------------------------|
| admit   | `AdmittedProgram` or `RefusedProgram`, of a program that a model wrote |
| check   | diagnostics                                                            |
| cost    | diagnostics, or its quote                                              |
| explain | diagnostics, or its manifest and its dataflow graph                    |
| run     | diagnostics, or `AdmittedProgram` or `RefusedProgram`                  |

An inspection may run in another process, which has no models but only their names. There
`RemoteTokenCount` asks the process with the models for the number of tokens of a request.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from vegakit.conversation import ModelRequest
from vegakit.errors import UserError
from vegakit.lang import (
    MOST_STEPS,
    AgentSpec,
    Checked,
    DataflowGraph,
    Manifest,
    ModelTerms,
    Module,
    Quote,
    Signature,
    TooMuchWorkError,
    Type,
    as_json,
    check_program,
    compile_program,
    dataflow_of,
    in_order,
    in_project,
    manifest_of,
    quote,
    render,
    spare_steps,
    step_limit,
    with_typical,
)
from vegakit.money import Money
from vegakit.policy import Allowed, Fetch, Grant, ReadPath, RunCommand, Use, decide, rule_within
from vegakit.program.refusals import (
    RefusalReason,
    RefusedProgram,
    has_mistakes,
    over_remaining,
    refused,
    too_complex,
    too_expensive,
    unbounded,
)

# Capabilities: what the grant allows, and what of a manifest is not inside.


_WILD = frozenset("*?[")
_OPEN = frozenset({"*", "**"})
_NEEDS = {
    "paths": ("fs::read", "fs::write"),
    "commands": ("process::exec",),
    "hosts": ("net::get", "net::post"),
}


@dataclass(frozen=True)
class ProgramRights:
    """The rights of a program that a model writes. `paths`, `commands` and `hosts` are rules as in
    `@tool`; `people` allows it to ask persons."""

    capabilities: Sequence[str] = ()
    paths: Sequence[str] = ()
    commands: Sequence[str] = ()
    hosts: Sequence[str] = ()
    people: bool = False

    def __post_init__(self) -> None:
        grant = self.grant
        for name, capabilities in _NEEDS.items():
            used = any(_names(grant, capability) for capability in capabilities)
            if getattr(self, name) and not used:
                wanted = " or ".join(f'"{capability}"' for capability in capabilities)
                raise UserError(
                    f"ProgramRights({name}=…) grants nothing alone; "
                    f"add capabilities=[…] with {wanted}"
                )

    @cached_property
    def grant(self) -> Grant:
        """Return these rights as a grant."""
        return Grant(
            tuple(self.capabilities),
            paths=tuple(self.paths),
            commands=tuple(self.commands),
            hosts=tuple(self.hosts),
        )


def missing_rights(manifest: Manifest, may: ProgramRights, known: frozenset[str]) -> list[str]:
    """Return a line for each thing that is not granted, with what to write instead. `known` are
    names that the manifest calls unknown but that were given to the program."""
    missing: list[str] = []
    for name, capability, clause, rules in _TOUCHED:
        requested: tuple[str, ...] = getattr(manifest, name)
        if requested and not _names(may.grant, capability):
            missing.append(f"{capability} is not granted ({_granted(may)}); take out what needs it")
            continue
        for rule in requested:
            if rule not in _OPEN and not _FITS[rules](may.grant, capability, rule):
                inside = ", ".join(f'"{one}"' for one in getattr(may, rules)) or "none"
                missing.append(f'{clause} ["{rule}"] is not inside what is granted: write {inside}')
    missing += [
        f"{name} is not granted ({_granted(may)}); take out what needs it"
        for name in manifest.unknown
        if name not in known and not _names(may.grant, name)
    ]
    missing += [f'use mcp "{name}" is not granted; ask a given agent' for name in manifest.servers]
    if manifest.asks_people and not may.people:
        missing.append("human:: asks a person, which is not granted; return the question instead")
    return missing


_TOUCHED = (
    ("reads", "fs::read", "allowed_paths", "paths"),
    ("writes", "fs::write", "allowed_paths", "paths"),
    ("gets", "net::get", "allowed_hosts", "hosts"),
    ("posts", "net::post", "allowed_hosts", "hosts"),
    ("commands", "process::exec", "allowed_commands", "commands"),
)


def _names(grant: Grant, capability: str) -> bool:
    return isinstance(decide(Grant(grant.capabilities), Use(capability)), Allowed)


def _granted(may: ProgramRights) -> str:
    return f"granted: {', '.join(may.capabilities) or 'nothing'}"


def _path_fits(grant: Grant, capability: str, rule: str) -> bool:
    rule = in_project(rule)
    if rule in grant.paths:
        return True
    if _WILD.isdisjoint(rule):
        reading = Grant(("fs::read",), paths=grant.paths)
        return isinstance(decide(reading, ReadPath(rule)), Allowed)
    folders = [one.removesuffix("**") for one in grant.paths if one == "**" or one.endswith("/**")]
    return ".." not in rule.split("/") and any(map(rule.startswith, folders))


def _host_fits(grant: Grant, capability: str, rule: str) -> bool:
    host, _, port = rule.partition(":")
    if rule in grant.hosts:
        return True
    if host.startswith("*") or not (port or "443").isdecimal():
        return False
    reading = Grant(("net::get",), hosts=grant.hosts)
    return isinstance(decide(reading, Fetch("GET", host, int(port or 443))), Allowed)


def _command_fits(grant: Grant, capability: str, rule: str) -> bool:
    if rule in grant.commands:
        return True
    if "*" not in rule:
        return isinstance(decide(grant, RunCommand(tuple(rule.split()))), Allowed)
    return any(rule_within(rule, one) for one in grant.commands)


_FITS: dict[str, Callable[[Grant, str, str], bool]] = {
    "paths": _path_fits,
    "hosts": _host_fits,
    "commands": _command_fits,
}


# Admission: a program is checked, held against its grant, and quoted, before its first call.


MOST_BYTES = 40_000
AT_MOST, TYPICAL = "at most", "typical"
"""What of a quote has to be within the limit for a program to be admitted."""
LANGUAGES = {"vega": "vega", "python": "py"}
"""The languages by name, with their file extensions."""
_MOST_LISTED = 12

Count: TypeAlias = Callable[[ModelRequest], int]


class AgentTerms:
    """Prices and limits of models: by agent for given agents, by model for others."""

    def __init__(
        self, agents: Mapping[str, ModelTerms | None], models: Mapping[str, ModelTerms | None]
    ) -> None:
        self._agents, self._models = agents, models

    def __call__(self, spec: AgentSpec) -> ModelTerms | None:
        if spec.name in self._agents:
            return self._agents[spec.name]
        return in_order(map(self._models.get, spec.models))

    def renamed(self, count: Callable[[str], Count]) -> "AgentTerms":
        """Return the same terms with other token counts, each by a name that `counts` knows."""
        return AgentTerms(
            {key: _with(one, f"agent {key}", count) for key, one in self._agents.items()},
            {key: _with(one, f"model {key}", count) for key, one in self._models.items()},
        )

    @property
    def counts(self) -> dict[str, Count]:
        """Return the token counter of each agent and model that has one."""
        agents = {f"agent {key}": one for key, one in self._agents.items()}
        models = {f"model {key}": one for key, one in self._models.items()}
        return {
            name: each.count
            for key, one in (agents | models).items()
            if one is not None
            for name, each in zip(_count_names(key, one), (one, *one.fallbacks), strict=True)
        }


def _count_names(key: str, terms: ModelTerms) -> tuple[str, ...]:
    """Return the names of the counts of a model and of those that are asked after it."""
    return key, *(f"{key} else {number}" for number, _ in enumerate(terms.fallbacks, 1))


def _with(terms: ModelTerms | None, key: str, count: Callable[[str], Count]) -> ModelTerms | None:
    if terms is None:
        return None
    own, *later = map(count, _count_names(key, terms))
    pairs = zip(terms.fallbacks, later, strict=True)
    fallbacks = tuple(replace(one, count=other) for one, other in pairs)
    return replace(terms, count=own, fallbacks=fallbacks)


@dataclass(frozen=True)
class ProgramGrant:
    """Everything that a program may use. `agents` are given to it by name; `models` are those that
    its own agents may name; `tools` and `types` come from Python; `terms` say what models cost.
    `repeats` of a hundred sends may be paid once more; None: as each agent's `retry` says. `admit`
    is what has to be within `max_cost`: what it costs at most, or what is typical."""

    max_cost: Money
    may: ProgramRights
    agents: Mapping[str, AgentSpec]
    models: frozenset[str]
    terms: AgentTerms
    tools: Mapping[str, Signature] = field(default_factory=dict[str, Signature])
    types: Mapping[str, Type] = field(default_factory=dict[str, Type])
    languages: tuple[str, ...] = ("vega",)
    repeats: int | None = None
    admit: str = AT_MOST


@dataclass(frozen=True)
class AdmittedProgram:
    """An admitted program. `cost` becomes its wallet: its quote, or less if it was admitted by what
    is typical."""

    module: Module
    quoted: Quote
    manifest: Manifest
    cost: Money

    @property
    def is_capped(self) -> bool:
        """Return whether it may come to the end of its wallet: what does not fit is refused."""
        return self.quoted.total is None or self.cost < self.quoted.total


def admit(source: str, language: str, grant: ProgramGrant) -> AdmittedProgram | RefusedProgram:
    """Admit or refuse a program. The result depends only on the source and the grant. Without a
    language the first one is used."""
    language = language or grant.languages[0]
    if language not in grant.languages:
        known = " or ".join(f'"{one}"' for one in grant.languages)
        return refused(
            RefusalReason.MISTAKES, f"no language is called {language!r}", f"write {known}"
        )
    if (size := len(source.encode(errors="surrogatepass"))) > MOST_BYTES:
        return refused(
            RefusalReason.SIZE,
            f"it has {size:,} bytes; a program has at most {MOST_BYTES:,}",
            "make it shorter: loops and functions for what repeats, `arguments` for long texts",
        )
    try:
        with step_limit(MOST_STEPS) as steps:
            verdict = _checked(source, f"program.{LANGUAGES[language]}", grant)
    except TooMuchWorkError:
        return too_complex()
    return too_complex() if steps.are_spent else verdict


def _checked(source: str, name: str, grant: ProgramGrant) -> AdmittedProgram | RefusedProgram:
    checked, found = check_program(
        source,
        name,
        lambda _: None,
        tools=grant.tools,
        types=grant.types,
        agents=tuple(grant.agents.values()),
        is_lent=True,
    )
    if checked is None:
        return has_mistakes(found, {name: source})
    return judge(checked, grant)


def judge(checked: Checked, grant: ProgramGrant) -> AdmittedProgram | RefusedProgram:
    """Admit or refuse a program that was checked already."""
    module, manifest = compile_program(checked), manifest_of(checked)
    if wrong := list(_foreign_agents(module, grant)):
        return _listed(RefusalReason.AGENTS, "its agents hold more than you were given", wrong)
    if wrong := missing_rights(manifest, grant.may, _known(grant)):
        return _listed(RefusalReason.RIGHTS, "it would touch what is not granted", wrong)
    by_typical = grant.admit == TYPICAL
    quoted = quote(checked, grant.terms, repeats=grant.repeats, typical=by_typical)
    figure = quoted.typical if by_typical else quoted.total
    if figure is None:
        return unbounded(quoted, grant.max_cost)
    if figure > grant.max_cost:
        return too_expensive(quoted, grant.max_cost)
    if not by_typical:
        with spare_steps():
            quoted = with_typical(quoted, checked, grant.terms)
    cost = grant.max_cost if quoted.total is None else min(quoted.total, grant.max_cost)
    return AdmittedProgram(module, quoted, manifest, Money(cost))


def over_remaining_budget(accepted: AdmittedProgram, room: Money | None) -> RefusedProgram | None:
    """Refuse a program whose quote exceeds `room`, what is left for the agent that runs it; None
    limits nothing."""
    if room is None or accepted.cost <= room:
        return None
    return over_remaining(accepted.quoted, room)


def _known(grant: ProgramGrant) -> frozenset[str]:
    """Return the names that are given to the program. The tools of given agents were chosen by
    their owner."""
    theirs = (f"yaml {name}" for spec in grant.agents.values() for name in spec.yaml)
    return frozenset((*grant.tools, *theirs))


def _foreign_agents(module: Module, grant: ProgramGrant) -> Iterable[str]:
    models = ", ".join(f'model "{name}"' for name in sorted(grant.models)) or "none"
    for spec in module.agents:
        if spec.name in grant.agents:
            continue
        for model in spec.models:
            if model not in grant.models:
                yield f'agent {spec.name} names model "{model}"; write one of: {models}'
        if spec.mcp or spec.yaml:
            yield f"agent {spec.name} has tools of servers or files; ask a given agent that may"


def _listed(kind: RefusalReason, what: str, wrong: list[str]) -> RefusedProgram:
    rest = len(wrong) - _MOST_LISTED
    more = [f"and {rest} more"] if rest > 0 else []
    return refused(kind, what, *wrong[:_MOST_LISTED], *more)


# Inspection of a program for the CLI, an editor or an MCP client, under one limit of steps.


Read: TypeAlias = Callable[[str], str | None]

MOST_LINKS = 100
"""The most links of a dataflow graph that are shown: 400 sends to one process have 80,000."""

token_counter: ContextVar[Callable[[str, ModelRequest], int]] = ContextVar("counts_by")
"""Counts the tokens of a request for the model of this name, where the models are in another
process."""


class AdmissionRequest(StrEnum):
    """The things a caller may ask about a program."""

    ADMIT = "admit"
    CHECK = "check"
    COST = "cost"
    EXPLAIN = "explain"
    RUN = "run"


class RemoteTokenCount(Struct, frozen=True):
    """The token count of a model that is in another process."""

    name: str

    def __call__(self, request: ModelRequest) -> int:
        return token_counter.get()(self.name, request)


class Inspection(Struct, frozen=True):
    """The findings about a program. `shown` and `found` are the same diagnostics, for people and
    for programs. A part that was not requested, or does not exist for a program with mistakes, is
    None. `steps` is the work that it took."""

    is_sound: bool = True
    shown: str = ""
    found: tuple[Any, ...] = ()
    verdict: AdmittedProgram | RefusedProgram | None = None
    quoted: Quote | None = None
    manifest: Manifest | None = None
    flows: tuple[DataflowGraph, ...] | None = None
    steps: int = 0


def inspect_program(
    request: AdmissionRequest,
    text: str,
    name: str,
    grant: ProgramGrant,
    most: int,
    read: Read | None = None,
) -> Inspection | None:
    """Inspect a program; None if that takes more than `most` steps. `name` is the name of the file,
    or for `admit` that of the language."""
    try:
        with step_limit(most) as steps:
            inspection = _inspected(request, text, name, grant, read)
    except TooMuchWorkError:
        return None
    return None if steps.are_spent else replace(inspection, steps=most - steps.left)


def _inspected(
    request: AdmissionRequest, text: str, name: str, grant: ProgramGrant, read: Read | None
) -> Inspection:
    if request is AdmissionRequest.ADMIT:
        return Inspection(verdict=admit(text, name, grant))
    texts = {name: text}

    def kept(used: str) -> str | None:
        found = None if read is None else read(used)
        if found is not None:
            texts[used] = found
        return found

    checked, found = check_program(text, name, kept)
    is_sound = checked is not None and all(one.severity != "error" for one in found)
    shown, page = render(found, texts), tuple(as_json(found, texts))
    if checked is None or not is_sound or request is AdmissionRequest.CHECK:
        return Inspection(is_sound, shown, page)
    match request:
        case AdmissionRequest.COST:
            quoted = quote(checked, grant.terms, repeats=grant.repeats)
            return Inspection(is_sound, shown, page, quoted=quoted)
        case AdmissionRequest.EXPLAIN:
            manifest, whole = manifest_of(checked), dataflow_of(checked)
            flows = tuple(replace(flow, links=flow.links[:MOST_LINKS]) for flow in whole)
            return Inspection(is_sound, shown, page, manifest=manifest, flows=flows)
        case _:
            return Inspection(is_sound, shown, page, judge(checked, grant))


def too_complex_inspection(request: AdmissionRequest) -> Inspection:
    """Return the result for a program whose inspection takes too many steps."""
    refusal = too_complex()
    if request in (AdmissionRequest.ADMIT, AdmissionRequest.RUN):
        return Inspection(verdict=refusal)
    return Inspection(is_sound=False, shown=refusal.text)
