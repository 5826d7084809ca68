"""What a model is told of the programs that it may write: its agents, functions, rights, limits."""

from typing import TYPE_CHECKING

from vegakit.lang import card, signature_text
from vegakit.money import show

if TYPE_CHECKING:
    from vegakit.runtime.authored.tool import RunProgram

__all__ = ["notes_of"]

_LONGEST = 120


def notes_of(tool: "RunProgram", *, teach: bool) -> str:
    agents = [f"- {agent.name}: {_line(agent.system)}" for agent in tool.agents]
    models = sorted({agent.model for agent in tool.agents if isinstance(agent.model, str)})
    models = [*models, *(name for name in tool.models if name not in models)]
    functions = [f"- {signature_text(one)}" for one in tool.bridge.signatures.values()]
    rows = [
        f"# Programs for {tool.spec.name}",
        f"At most {show(tool.cost)} each by the quote, {tool.most} in a turn.",
        "Nothing of it runs before it is accepted. Bound lists and loops, so that it has a quote.",
        *_listed("Agents it may ask by name, without declaring them", agents),
        *_listed("Functions it may call", functions),
        f"Rights of its code: {_rights(tool)}.",
        f"Models of agents that it declares itself: {', '.join(models) or 'none'}.",
    ]
    first, *others = tool.languages
    rows += [f"It is in {first}, or with `language` in {' or '.join(others)}."] if others else []
    page = card("python" if first == "python" else "vega") if teach else ""
    return "\n".join([*rows, "", page]).rstrip()


def _listed(title: str, rows: list[str]) -> list[str]:
    return [f"{title}:", *rows] if rows else [f"{title}: none."]


def _line(system: str) -> str:
    first = system.strip().partition("\n")[0]
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]}…"


def _rights(tool: "RunProgram") -> str:
    may = tool.may
    if not may.capabilities:
        return "none but print" + (" and human::" if may.people else "")
    rules = {"paths": may.paths, "commands": may.commands, "hosts": may.hosts}
    told = [f"{name} {', '.join(each)}" for name, each in rules.items() if each]
    return "; ".join([", ".join(may.capabilities), *told, *(["human::"] if may.people else [])])
