"""Waiting in memory: nothing that costs money is ever dropped."""

import sys
import threading
from collections import Counter

from tests.telemetry.calls import call, paid, run
from vegakit.events import CallTraced
from vegakit.telemetry.jsonl import BackgroundWriter


class Slow:
    """Writes only when it may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.began = threading.Event()
        self.written: list[CallTraced] = []
        self.dropped = 0

    def write(self, batch: list[CallTraced], dropped: int) -> None:
        self.began.set()
        assert self.may.wait(10)
        self.written.extend(batch)
        self.dropped += dropped


def stuck(capacity: int) -> tuple[Slow, BackgroundWriter]:
    """Its thread is in the middle of writing the first record."""
    slow = Slow()
    writer = BackgroundWriter(slow.write, capacity)
    writer.record(call(0))
    assert slow.began.wait(10)
    return slow, writer


def test_everything_is_written_in_order() -> None:
    """Closing waits for it."""
    slow = Slow()
    slow.may.set()
    writer = BackgroundWriter(slow.write)
    for number in range(1000):
        writer.record(call(number))
    run(writer.aclose())
    assert slow.written == [call(number) for number in range(1000)]
    assert not slow.dropped


def test_the_thread_writes_by_itself() -> None:
    """Without being closed, and again after a pause."""
    slow, writer = stuck(10)
    slow.may.set()
    slow.began.clear()
    writer.record(call(1))
    assert slow.began.wait(10)
    run(writer.aclose())


def test_when_full_what_costs_nothing_is_dropped_and_counted() -> None:
    """The rest stays."""
    slow, writer = stuck(3)
    for number in range(1, 11):
        writer.record(call(number))
    slow.may.set()
    run(writer.aclose())
    assert slow.written == [call(number) for number in range(4)]
    assert slow.dropped == 7


def test_when_full_what_costs_money_is_written_by_its_caller() -> None:
    """Ten thousand records behind a slow disk: every paid one is there."""
    slow, writer = stuck(3)
    recording = threading.Thread(target=lambda: [writer.record(paid(n)) for n in range(1, 100)])
    recording.start()
    slow.may.set()
    recording.join(10)
    run(writer.aclose())
    assert slow.written == [call(0), *(paid(number) for number in range(1, 100))]


def test_after_closing_records_are_written_at_once() -> None:
    """A call that settles late is not lost."""
    slow = Slow()
    slow.may.set()
    writer = BackgroundWriter(slow.write)
    run(writer.aclose())
    writer.record(call())
    assert slow.written == [call()]


def test_many_threads_record_at_once() -> None:
    """Each record is written exactly once."""
    slow = Slow()
    slow.may.set()
    writer = BackgroundWriter(slow.write, 50)
    threads = [
        threading.Thread(target=lambda m=m: [writer.record(paid(m * 1000 + n)) for n in range(500)])
        for m in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    run(writer.aclose())
    assert sorted(c.at_ms for c in slow.written) == sorted(
        paid(m * 1000 + n).at_ms for m in range(4) for n in range(500)
    )


def test_recording_takes_the_caller_next_to_nothing() -> None:
    """A handful of calls of functions, however many records wait."""
    slow = Slow()
    slow.may.set()
    writer, record, called = BackgroundWriter(slow.write, 100_000), paid(), Counter[str]()
    sys.setprofile(lambda frame, event, _: called.update([event]))
    try:
        for _ in range(10_000):
            writer.record(record)
    finally:
        sys.setprofile(None)
    run(writer.aclose())
    assert called.total() < 10_000 * 20
