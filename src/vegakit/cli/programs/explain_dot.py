"""The flow of a program for Graphviz: `vega explain p.vega --dot | dot -Tpng`."""

import json
from collections.abc import Iterator, Sequence

from vegakit.lang import Flow, FlowLink, LinkKind, StepKind, ToldStep, deciding_links, told_steps

__all__ = ["as_dot"]

_LOOKS = {
    LinkKind.NEEDS: "color=blue",
    LinkKind.CONFLICT: "color=red",
    LinkKind.SAME: "color=red",
    LinkKind.BARRIER: "color=orange,penwidth=2",
    LinkKind.DECIDED: "color=purple,style=dotted",
    LinkKind.ORDER: "color=gray,style=dashed",
}


def as_dot(flows: Sequence[Flow]) -> str:
    lines = ["digraph flow {", "  node [shape=box, fontname=monospace];", "  compound=true;"]
    for number, flow in enumerate(flows):
        rows = {row.step: row for row in told_steps(flow)}
        if rows:
            lines += _cluster(f"f{number}", f"{flow.name}, line {flow.line}", "  ")
            lines += _below(flow, number, None, rows, "    ")
            lines += [_edge(number, link) for link in _links(flow, rows)]
            lines.append("  }")
    return "\n".join([*lines, "}"])


def _cluster(name: str, label: str, indent: str) -> Iterator[str]:
    yield f"{indent}subgraph cluster_{name} {{"
    yield f"{indent}  label={_quoted(label)};"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _below(
    flow: Flow, number: int, parent: int | None, rows: dict[int, ToldStep], indent: str
) -> Iterator[str]:
    for row in rows.values():
        if row.parent != parent:
            continue
        name, label = f"s{number}_{row.step}", _label(flow, row)
        if any(each.parent == row.step for each in rows.values()):
            yield from _cluster(name, label, indent)
            yield f"{indent}  {name} [shape=point];"
            yield from _below(flow, number, row.step, rows, indent + "  ")
            yield f"{indent}}}"
        else:
            yield f"{indent}{name} [label={_quoted(label)}];"


def _label(flow: Flow, row: ToldStep) -> str:
    step = flow.steps[row.step]
    what = "print" if step.kind is StepKind.PRINT else step.what
    wave = "" if row.wave is None else f"{row.wave}. "
    return f"{wave}{what} (line {step.line})"


def _links(flow: Flow, rows: dict[int, ToldStep]) -> Iterator[FlowLink]:
    for links in deciding_links(flow):
        yield from (link for link in links if link.before in rows and link.after in rows)


def _edge(number: int, link: FlowLink) -> str:
    ends = f"s{number}_{link.before} -> s{number}_{link.after}"
    return f"    {ends} [label={_quoted(link.text)},{_LOOKS[link.why]}];"
