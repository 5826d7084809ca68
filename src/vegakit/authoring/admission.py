"""Whether a written program may run: checked, inside its leave, and quoted, before its first call.

Agents that stand in the source are its own and hold no more than it was given: their models are
those of the given agents or named in the leave, their tools those that were given or are written in
Vega beside them, under the rights of the program.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec.structs import replace

from vegakit.authoring.may import May, lacking
from vegakit.authoring.refusals import (
    Refusal,
    Refused,
    dear,
    heavy,
    mistaken,
    over_room,
    refused,
    unbounded,
)
from vegakit.conversation import ModelRequest
from vegakit.lang import (
    MOST_STEPS,
    AgentSpec,
    Checked,
    Manifest,
    ModelTerms,
    Module,
    Quote,
    Signature,
    StepsSpentError,
    Type,
    check,
    compile_program,
    counted,
    manifest_of,
    quote,
)
from vegakit.money import Money

__all__ = ["LANGUAGES", "MOST_BYTES", "Accepted", "Leave", "TermsOf", "admit", "judge", "poor"]

MOST_BYTES = 40_000
LANGUAGES = {"vega": "vega", "python": "py"}
"""By name, with the endings of their files."""
_MOST_TOLD = 12

Count: TypeAlias = Callable[[ModelRequest], int]


class TermsOf:
    """By the agent for those that are given, by the model for others."""

    def __init__(
        self, agents: Mapping[str, ModelTerms | None], models: Mapping[str, ModelTerms | None]
    ) -> None:
        self._agents, self._models = agents, models

    def __call__(self, spec: AgentSpec) -> ModelTerms | None:
        if spec.name in self._agents:
            return self._agents[spec.name]
        return self._models.get(spec.model)

    def renamed(self, count: Callable[[str], Count]) -> "TermsOf":
        """The same, with other counts, each by a name that `counts` knows."""
        return TermsOf(
            {key: _with(one, count(f"agent {key}")) for key, one in self._agents.items()},
            {key: _with(one, count(f"model {key}")) for key, one in self._models.items()},
        )

    @property
    def counts(self) -> dict[str, Count]:
        agents = {f"agent {key}": one for key, one in self._agents.items()}
        models = {f"model {key}": one for key, one in self._models.items()}
        return {key: one.count for key, one in (agents | models).items() if one is not None}


def _with(terms: ModelTerms | None, count: Count) -> ModelTerms | None:
    return None if terms is None else replace(terms, count=count)


@dataclass(frozen=True)
class Leave:
    """All that a written program may use. `agents` are given to it by name, `models` those that
    agents of its own may name, `tools` and `types` from Python; `terms` say what models cost."""

    max_cost: Money
    may: May
    agents: Mapping[str, AgentSpec]
    models: frozenset[str]
    terms: TermsOf
    tools: Mapping[str, Signature] = field(default_factory=dict[str, Signature])
    types: Mapping[str, Type] = field(default_factory=dict[str, Type])
    languages: tuple[str, ...] = ("vega",)


@dataclass(frozen=True)
class Accepted:
    """`cost` is its quote: what it may spend, and gets."""

    module: Module
    quoted: Quote
    manifest: Manifest
    cost: Money


def admit(source: str, language: str, leave: Leave) -> Accepted | Refused:
    """Of the same source and leave always the same. Without a language it is the first."""
    language = language or leave.languages[0]
    if language not in leave.languages:
        known = " or ".join(f'"{one}"' for one in leave.languages)
        return refused(Refusal.MISTAKES, f"no language is called {language!r}", f"write {known}")
    if (size := len(source.encode(errors="surrogatepass"))) > MOST_BYTES:
        return refused(
            Refusal.SIZE,
            f"it has {size:,} bytes; a program has at most {MOST_BYTES:,}",
            "make it shorter: loops and functions for what repeats, `arguments` for long texts",
        )
    try:
        with counted(MOST_STEPS) as steps:
            verdict = _checked(source, f"program.{LANGUAGES[language]}", leave)
    except StepsSpentError:
        return heavy()
    return heavy() if steps.are_spent else verdict


def _checked(source: str, name: str, leave: Leave) -> Accepted | Refused:
    checked, found = check(
        source,
        name,
        _no_files,
        tools=leave.tools,
        types=leave.types,
        agents=tuple(leave.agents.values()),
    )
    if checked is None:
        return mistaken(found, {name: source})
    return judge(checked, leave)


def judge(checked: Checked, leave: Leave) -> Accepted | Refused:
    """Of a program that was checked, by whoever."""
    module, manifest = compile_program(checked), manifest_of(checked)
    if wrong := list(_strangers(module, leave)):
        return _listed(Refusal.AGENTS, "its agents hold more than you were given", wrong)
    if wrong := lacking(manifest, leave.may, _known(leave)):
        return _listed(Refusal.RIGHTS, "it would touch what is not granted", wrong)
    quoted = quote(checked, leave.terms)
    if quoted.total is None:
        return unbounded(quoted, leave.max_cost)
    if quoted.total > leave.max_cost:
        return dear(quoted, leave.max_cost)
    return Accepted(module, quoted, manifest, Money(quoted.total))


def poor(accepted: Accepted, room: Money | None) -> Refused | None:
    """`room` is what is left for whoever runs it; None limits nothing."""
    if room is None or accepted.cost <= room:
        return None
    return over_room(accepted.quoted, room)


def _no_files(name: str) -> None:
    return None


def _known(leave: Leave) -> frozenset[str]:
    """Tools of given agents are those that their owner chose."""
    theirs = (f"yaml {name}" for spec in leave.agents.values() for name in spec.yaml)
    return frozenset((*leave.tools, *theirs))


def _strangers(module: Module, leave: Leave) -> Iterable[str]:
    models = ", ".join(f'model "{name}"' for name in sorted(leave.models)) or "none"
    for spec in module.agents:
        if spec.name in leave.agents:
            continue
        if spec.model not in leave.models:
            yield f'agent {spec.name} names model "{spec.model}"; write one of: {models}'
        if spec.mcp or spec.yaml:
            yield f"agent {spec.name} has tools of servers or files; ask a given agent that may"


def _listed(kind: Refusal, what: str, wrong: list[str]) -> Refused:
    rest = len(wrong) - _MOST_TOLD
    more = [f"and {rest} more"] if rest > 0 else []
    return refused(kind, what, *wrong[:_MOST_TOLD], *more)
