"""What `ps`, `top`, `tree`, `kill` and `logs` share: which runtime, and how values are spelled."""

import argparse
import shutil
from typing import TextIO

from vegakit.money import Money, show
from vegakit.runtime import Health, ProcessView, RuntimeView, State

__all__ = [
    "COLOURS",
    "PLAIN",
    "amount",
    "doing",
    "duration",
    "headings",
    "one_line",
    "supervision",
    "terminal_width",
    "verb_parser",
]

PLAIN = "\x1b[0m"
_DIM, _RED, _GREEN, _YELLOW, _CYAN = (f"\x1b[{code}m" for code in (2, 31, 32, 33, 36))
COLOURS: dict[State | Health, str] = {
    State.IDLE: _DIM,
    State.RUNNING: _GREEN,
    State.WAITING: _CYAN,
    State.STOPPING: _YELLOW,
    State.RESTARTING: _RED,
    State.OVER: _DIM,
    Health.OK: _GREEN,
    Health.SLOW: _YELLOW,
    Health.STUCK: _RED,
    Health.FAILING: _RED,
}
_CENT = 10_000_000
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
_LONGEST = 200


def verb_parser(verb: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"vega {verb}", description=description)
    parser.add_argument(
        "--at",
        metavar="RUNTIME",
        help="its name, its OS pid or its socket; not needed if only one runs",
    )
    return parser


def terminal_width(stream: TextIO) -> int | None:
    """None where nobody looks: then nothing is cut."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def duration(ms: float) -> str:
    """Its largest unit."""
    for unit, size in _UNITS:
        if ms >= size:
            return f"{int(ms // size)} {unit}"
    return f"{max(0, ms):.0f} ms"


def amount(money: Money | None) -> str:
    """Whole cents from a dollar on, never more than there is."""
    if money is None:
        return "–"
    return show(Money(money // _CENT * _CENT) if money >= 100 * _CENT else money)


def supervision(view: ProcessView) -> str:
    return f"{view.strategy} ×{view.restarts}" if view.restarts else view.strategy


def doing(view: ProcessView, now_ms: int) -> str:
    """What it waits for and until when; what ended its last life, if that was a failure."""
    words = [view.waiting_for]
    if view.until_ms is not None:
        left_ms = view.until_ms - now_ms
        words.append(f"{duration(left_ms)} left" if left_ms > 0 else f"{duration(-left_ms)} late")
    if view.restarts and view.health is Health.FAILING:
        words.append(f"after {view.last_exit}")
    return one_line(", ".join(filter(None, words)))


def headings(runtime: RuntimeView) -> tuple[str, str]:
    """Who it is, and how it does."""
    up = duration(runtime.now_ms - runtime.since_ms)
    who = f"{one_line(runtime.name)} · OS process {runtime.os_pid} · up {up}"
    works = f"{runtime.processes} processes, {runtime.tasks} tasks"
    money = f"{amount(runtime.spent)} spent, {amount(runtime.left)} left"
    return who, f"{works}, {runtime.os_children} OS children · {money}"


def one_line(text: str) -> str:
    """What a model wrote may not steer the terminal."""
    clean = "".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST])
    return clean + ("…" if len(text) > _LONGEST else "")
