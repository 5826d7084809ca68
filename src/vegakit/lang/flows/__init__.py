"""The flow of a program, known before it runs: what may overlap, what waits for what, and why."""

from vegakit.lang.flows.program import flows_of
from vegakit.lang.flows.records import Flow, FlowLink, FlowStep, LinkKind, Rounds, StepKind
from vegakit.lang.flows.telling import ToldStep, deciding_links, side_by_side, told_steps

__all__ = [
    "Flow",
    "FlowLink",
    "FlowStep",
    "LinkKind",
    "Rounds",
    "StepKind",
    "ToldStep",
    "deciding_links",
    "flows_of",
    "side_by_side",
    "told_steps",
]
