"""Sends whose message is a comparison: `A <- "Is it so?" == "yes"` sends true or false, where what
is meant is most often to compare the answer (pure).
"""

from typing import TypeGuard

from vegakit.lang.check.context import UNKNOWN, BodyCheck, without_null
from vegakit.lang.diagnostics import Edit
from vegakit.lang.syntax.tree import Ask, Binary, Node
from vegakit.lang.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    STR,
    ChoiceOf,
    ListOf,
    MapOf,
    Type,
    is_text,
    type_label,
)

_ARROWS = ("<-", "<~")
_JOINING = ("and", "or")
_COMPARING = (*_JOINING, "==", "!=", "<", "<=", ">", ">=", "in")


def sent_comparison(body: BodyCheck, node: Ask) -> Binary | None:
    """Return the comparison that is sent though no parentheses say so: of several that are joined,
    the one that begins with what is meant as the message. What begins with `not` is no such one:
    behind an arrow that cannot be meant of the answer."""
    found = node.message
    arrow = body.source(Node(node.to.end, found.at)).rstrip()
    if not _compares(found) or not arrow.endswith(_ARROWS):
        return None
    while _compares(found.left) and found.left.at == found.at:  # else it is in parentheses
        found = found.left
    return found


def _compares(node: Node) -> TypeGuard[Binary]:
    return isinstance(node, Binary) and node.op in _COMPARING


def answer_compared(body: BodyCheck, node: Ask) -> tuple[str, Edit | None]:
    """Return how to compare the answer instead: the send stands in parentheses, with its options,
    and asks for an answer that can be compared. Without an edit where that is not sure."""
    compared = sent_comparison(body, node)
    asked = None if compared is None else _answer_asked(body, node, compared)
    if compared is None or asked is None or node.later or node.stream:
        return "put the send in parentheses", None
    gap = body.source(Node(compared.left.end, compared.right.at))
    if "/" in gap:  # of a comment, which may hold anything
        return "put the send in parentheses", None
    behind = compared.left.end + len(gap.partition(compared.op)[0].rstrip())
    sent, rest = body.source(Node(node.at, behind)), body.source(Node(behind, node.message.end))
    options = body.source(Node(node.message.end, node.end))
    edit = Edit(node.at, node.end, f"({sent}{options}{asked}){rest}")
    shown = edit.text if len(edit.text) <= 60 and "\n" not in edit.text else f"(…{asked}){rest}"
    return f"write `{shown}`", edit


def _answer_asked(body: BodyCheck, node: Ask, compared: Binary) -> str | None:
    """Return what to add to the send, so that its answer has the type of what it is compared with;
    None where there is no such answer."""
    kind = _beside(body, compared)
    if kind not in (STR, INT, FLOAT, BOOL):
        return None
    label = type_label(kind)
    if node.answer is not None:
        return "" if body.source(node.answer) == label else None
    return "" if kind == STR else f" as {label}"


def _beside(body: BodyCheck, compared: Binary) -> Type:
    if compared.op in _JOINING:
        return BOOL
    kind = body.type_variables.full(body.program.types.get(id(compared.right), UNKNOWN))
    match without_null(kind):
        case ListOf(inner=inner) if compared.op == "in":
            kind = inner
        case MapOf() if compared.op == "in":
            kind = STR
        case _:
            kind = without_null(kind) if compared.op in ("==", "!=") else kind
    return STR if is_text(kind) or isinstance(kind, ChoiceOf) or kind == ANY else kind


def warn_of_comparison(body: BodyCheck, node: Ask, expected: Type | None) -> None:
    """Warn that a comparison is sent. Where a bool is wanted and the answer is none, whoever wants
    it reports that as an error, with the same advice."""
    if sent_comparison(body, node) is None:
        return
    wanted = None if expected is None else without_null(expected)
    is_told = node.answer is None and id(node) not in body.answers
    if wanted == BOOL and is_told and not (node.later or node.stream):
        return
    advice, edit = answer_compared(body, node)
    if not (wanted in (None, BOOL, ANY, UNKNOWN) or body.type_variables.is_open(wanted)):
        advice, edit = "", None
    to_compare = f"to compare the answer, {advice}; " if advice else ""
    body.reports.warn(
        "sent-comparison",
        node.message,
        "the message is what this comparison gives: true or false is sent",
        f"{to_compare}to send the outcome, put the comparison in parentheses",
        edit,
    )
