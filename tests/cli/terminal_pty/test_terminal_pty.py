"""`vega code` at a real pseudo terminal with a scripted model; `just tui` measures it in full."""

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from campaigns.terminal import reduced
from campaigns.terminal.emulator import Emulator
from campaigns.terminal.faults import planted
from campaigns.terminal.gauges import echoes, ready, stream
from campaigns.terminal.measures import COMMIT, LONG, LONG_WORDS, Notes, killing, redrawn, sit, stop
from campaigns.terminal.storms import storms
from campaigns.terminal.tty import NotSeenError, Tty

from tests.patience import wait_until
from vegakit.cli.terminal import reducer


def _short(notes: Notes) -> list[str]:
    return [f"{one.name}: {one.value}" for one in notes.figures if not one.holds]


def _gives_back(tty: Tty) -> None:
    """The last that was written takes the terminal back to how it was; it may still be on its way
    through the thread that draws."""
    with suppress(TimeoutError):
        wait_until(lambda: [*tty.emulator.left_on(), *tty.cooked()] == [])
    assert [*tty.emulator.left_on(), *tty.cooked()] == []


def test_keys_a_stream_resizes_and_a_plain_end() -> None:
    notes = Notes()
    with sit(notes) as seat:
        tty = seat.tty
        seat.start()
        found = ready(seat, time.perf_counter_ns())
        assert found.resident_mb <= 150
        echoes(tty, 12, random.Random(1))
        told = stream(seat, 96, 10)
        assert told.clears == 0
        assert told.bytes_per_token <= 200
        for columns, lines in ((30, 8), (160, 50), (81, 20), (50, 40)):
            before = len(tty.log)
            tty.resize(columns, lines)
            wait_until(lambda before=before: len(tty.log) > before)
        assert redrawn(tty, 100, 30) == []
        tty.type("\x11")
        assert tty.ended() == 0
        _gives_back(tty)


def test_esc_stops_an_answer() -> None:
    with sit(Notes()) as seat:
        seat.start()
        ready(seat, time.perf_counter_ns())
        seat.it.script(LONG, repeats=True)
        stop(seat, 1)
        assert seat.it.main[-1].sent < LONG_WORDS


def test_a_suspended_screen_gives_the_terminal_back_and_comes_again() -> None:
    """Ctrl-Z: the modes are off while the shell has the terminal; `fg` brings back what was drawn
    and typed."""
    with sit(Notes()) as seat:
        seat.start()
        tty = seat.tty
        ready(seat, time.perf_counter_ns())
        tty.type("draft")
        tty.seen("> draft")
        shown = tty.text()
        tty.type("\x1a")
        stat = Path(f"/proc/{tty.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        _gives_back(tty)
        tty.make_blank()
        os.kill(tty.pid, signal.SIGCONT)
        tty.seen("> draft")
        wait_until(lambda: tty.text() == shown)
        assert "ECHO" in tty.cooked()
        tty.type("ing")
        tty.seen("> drafting")
        tty.type("\x11")
        assert tty.ended() == 0
        _gives_back(tty)


def test_a_killed_session_goes_on_at_the_same_terminal() -> None:
    notes = Notes()
    killing(notes, COMMIT)
    assert _short(notes) == []


def test_random_keys_lose_nothing_and_approve_nothing() -> None:
    notes = Notes()
    storms(notes, 3, each=3, actions=6)
    assert _short(notes) == []
    assert reduced.reduced_storms(60) == []


def test_the_checks_can_fail() -> None:
    at_once = SimpleNamespace(**vars(reducer))
    at_once.on_key = _yes_at_once
    faults = reduced.reduced_storms(60, rules=at_once)
    assert any("approved after" in fault for fault in faults)
    forgets = SimpleNamespace(**vars(reducer))
    forgets.next_turn = lambda state: state.queue.clear() or []
    assert any("was lost" in fault for fault in reduced.reduced_storms(60, rules=forgets))
    with sit(Notes(planted("clears"))) as seat:
        seat.start()
        ready(seat, time.perf_counter_ns())
        began = time.perf_counter_ns()
        with suppress(NotSeenError):  # the last word may be cleared away before anybody sees it
            stream(seat, 48, 10, most_s=10)
        assert seat.tty.clears(began) > 0


def _yes_at_once(
    state: reducer.ViewState, key: str, now: int, *, is_draft_empty: bool
) -> list[reducer.Action] | None:
    if state.asked is not None:
        state.asked.shown_ms, state.last_key_ms = now - 1_000, now - 1_000
    return reducer.on_key(state, key, now, is_draft_empty=is_draft_empty)


def test_the_terminal_counts_clears_and_knows_what_is_left_on() -> None:
    screen = Emulator(20, 4)
    screen.feed(b"\x1b[?1049h\x1b[?25l\x1b[>1u\x1b[2Jone\x1b[H\x1b[J\x1b[5;5H\x1b[J\x1b[3")
    screen.feed(b"J\x1b[?1003h")
    assert [clear.how for clear in screen.clears] == ["ESC[2J", "ESC[H ESC[J", "ESC[3J"]
    assert screen.left_on() == ["?25l", "?1003h", "?1049h", "keyboard"]
    screen.feed(b"\x1b[<u\x1b[?1003l\x1b[?25h\x1b[?1049l")
    assert screen.left_on() == []
    assert screen.feed(b"ab\x1b[6n\x1b[?2026$p") == b"\x1b[4;7R\x1b[?2026;2$y"
