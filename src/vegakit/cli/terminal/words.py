"""Say on the screen what is typed there: errors are written for a shell and its options. Pure."""

import re

from vegakit.host import NO_PRICE
from vegakit.sage import EndReason, SageEnd

_ON_SCREEN = tuple(
    (re.compile(told), said)
    for told, said in (
        (
            r"(?:to add to it, )?type:? --budget '\+\$?([0-9.]+)'",
            r"to add to it, type: /budget +$\1",
        ),
        (r"leave --budget out; ", ""),
        (r", then type: vega code --resume \S+", ", then start vega code again"),
        (r"raise (its wallet or|the) budget, or lower max_tokens", "raise the budget"),
    )
)
_AUTH = "failed (auth)"


def on_screen(text: str) -> str:
    """Return an error in the words of the screen."""
    for pattern, said in _ON_SCREEN:
        text = pattern.sub(said, text)
    return text


def next_step(end: SageEnd) -> str:
    """Return what to type after a turn that did not come to its end; nothing if that is plain."""
    if NO_PRICE in end.message:
        return "try: /model, to ask one whose price is known"
    if end.reason is EndReason.BUDGET:
        return "try: /budget +$1, then type: go on"
    if end.reason is not EndReason.ERROR:
        return ""
    if _AUTH in end.message:
        return "try: /model, to ask another one; or leave with Ctrl-Q, set the key, and start again"
    return "try: type go on to ask again, or /model to ask another one"
