"""What clients are shown, as JSON: amounts of money are text, as in programs."""

import json
from typing import Any

from vegakit.authoring import MOST_LINKS
from vegakit.lang import Flow, Quote
from vegakit.money import Money, show
from vegakit.policy import sanitise
from vegakit.runtime import ProcessView, Question, how_to_answer

__all__ = ["flow_page", "question_row", "quote_page", "shown", "view_row"]


def shown(page: dict[str, Any]) -> str:
    return json.dumps(page, indent=1, ensure_ascii=False, default=str)


def quote_page(quoted: Quote) -> dict[str, Any]:
    """null where nothing sets a bound."""
    return {
        "at_most": _amount(quoted.total),
        "calls": quoted.calls,
        "processes": quoted.processes,
        "lines": [
            {"file": one.file, "line": one.line, "what": one.what}
            | {"calls": one.calls, "at_most": _amount(one.worst)}
            for one in quoted.lines
        ],
        "unbounded": [
            {"file": one.file, "line": one.line, "why": one.why, "capped_by": _amount(one.cap)}
            for one in quoted.unbounded
        ],
    }


def flow_page(flow: Flow) -> dict[str, Any]:
    """What may run side by side, wave by wave, and what waits for what."""
    places = {step.id: f"line {step.line} {step.what}" for step in flow.steps}
    return {
        "function": flow.name,
        "at_once": [[places[one] for one in wave] for wave in flow.waves[:MOST_LINKS]],
        "waits": [
            f"{places[link.after]} after {places[link.before]}: {link.text}"
            for link in flow.links[:MOST_LINKS]
        ],
    }


def view_row(view: ProcessView, name: str, now_ms: int) -> dict[str, Any]:
    return {
        "id": name,
        "kind": view.kind,
        "state": view.state,
        "health": view.health,
        "waiting_for": sanitise(view.waiting_for),
        "seconds": max(0, now_ms - view.since_ms) / 1_000,
        "spent": show(view.spent),
        "left": _amount(view.left),
    }


def question_row(question: Question, now_ms: int) -> dict[str, Any]:
    """The text is spelled: a backslash begins an escape of JSON."""
    left_ms = None if question.expires_ms is None else max(0, question.expires_ms - now_ms)
    return {
        "id": question.id,
        "kind": question.kind,
        "process": sanitise(question.process),
        "text": question.text,
        "seconds_left": None if left_ms is None else left_ms / 1_000,
        "answer": how_to_answer(question),
    }


def _amount(nanos: int | None) -> str | None:
    return None if nanos is None else show(Money(nanos))
