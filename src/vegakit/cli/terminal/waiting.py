"""Tell what a turn waits for, with a sign that moves and the seconds, above the prompt. Pure.

prompt sent, a tool ended ─▶ at once          a text streams ─▶ when nothing came for a second
a call is made again      ─▶ counts down      tools at work, a question ─▶ they tell it themselves
"""

from vegakit.cli.look import SPINNER, Tone, cut, duration
from vegakit.cli.terminal.draw import safe, seg, width_of
from vegakit.cli.terminal.markdown import Line
from vegakit.cli.terminal.state import TextItem, TurnState, ViewState

STALLED_MS = 1_000
"""Between two words of a stream nobody waits; longer than this somebody does."""
_STEP_MS, _LEAST = 250, 24


def wait_of(state: ViewState, now: int) -> str:
    """Return what is waited for and for how long; nothing if the conversation shows it."""
    if state.turn_state is TurnState.STOPPING:
        return "stopping"
    if not state.is_working or state.waiting or state.tools:
        return ""
    model = safe(state.model_told)
    if (left := state.retry_ms - now) > 0:
        return f"{state.retry_told}: asks {model} again in {duration(left + 999, brief=True)}"
    silent = 0 if state.heard_ms is None else now - max(state.heard_ms, state.retry_ms)
    last = state.items[-1] if state.items else None
    if isinstance(last, TextItem) and last.is_open and silent < STALLED_MS:
        return ""
    took = f" {duration(silent, brief=True)}" if silent >= 1_000 else ""
    limit = duration(state.silent_limit_ms, brief=True) if state.silent_limit_ms else ""
    return f"waiting for {model}{took}{f'; asked again after {limit}' if limit else ''}"


def waiting_line(state: ViewState, now: int, width: int, right: str = "") -> Line:
    """Return the line above the prompt: a rule, in which stands what is waited for, and at its end
    what else is to be known."""
    told = wait_of(state, now)
    has_room = right and (not told or len(right) + _LEAST <= width)
    end = [seg(f" {right} "), seg("──", Tone.FAINT)] if has_room else []
    room = width - width_of(end)
    if not told:
        return [seg("─" * room, Tone.FAINT), *end]
    frame = SPINNER[now // _STEP_MS % len(SPINNER)]
    said = cut(told, max(4, room - 7))
    left = [seg("── ", Tone.FAINT), seg(frame, Tone.WORK), seg(f" {said} ")]
    return [*left, seg("─" * (room - width_of(left)), Tone.FAINT), *end]
