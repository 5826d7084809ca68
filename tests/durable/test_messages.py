"""What travels through Temporal comes back as it was."""

import subprocess
import sys

from vegakit.conversation import Conversation
from vegakit.durable import RECORDS, Launch
from vegakit.durable.messages import ChargedReply, Command, Reply
from vegakit.durable.workflow import _latest
from vegakit.ids import ProgramId
from vegakit.program import AgentReply, Post, ProcessMessage, Program, Returned

THREADS = """
import sys, threading
from vegakit.durable import RECORDS, Launch
from vegakit.program import Program
sys.setswitchinterval(1e-6)
read, gate = RECORDS.payload_converter.from_payload, threading.Barrier(16)
payload = RECORDS.payload_converter.to_payload(Launch(Program("p"), "queue"))
run = lambda: (gate.wait(), read(payload, Launch))
threads = [threading.Thread(target=run) for _ in range(16)]
[thread.start() for thread in threads]
"""


def test_records_are_readable_json() -> None:
    """In the histories of Temporal, where people look."""
    convert = RECORDS.payload_converter
    command = Command("c1", Post("counter", ProcessMessage("more", "c1"), "c1"), 500)
    (payload,) = convert.to_payloads([command])
    assert b'"event":{"type":"Post","to":"counter"' in payload.data
    assert convert.from_payload(payload, Command) == command


def test_nothing_and_bytes_travel_as_usual() -> None:
    """Temporal's own encodings are kept beside ours."""
    convert = RECORDS.payload_converter
    payloads = convert.to_payloads([None, b"raw", [1, "two"]])
    assert convert.from_payloads(payloads) == [None, b"raw", [1, "two"]]


def test_a_launch_comes_back() -> None:
    """Also with the replies that move along."""
    replies: dict[str, Reply] = {
        "a": Returned(1),
        "b": ChargedReply(AgentReply("yes", Conversation())),
    }
    launch = Launch(Program(ProgramId("p")), "queue", replies=replies)
    convert = RECORDS.payload_converter
    assert convert.from_payload(convert.to_payload(launch), Launch) == launch


def test_the_latest_replies_move_along() -> None:
    """In their order, as many as fit; one that is too large keeps out those before it."""
    small = {str(n): Returned(n) for n in range(3)}
    large = {"large": Returned("x" * 600_000)}
    assert list(_latest({**small, "3": Returned(3)})) == ["0", "1", "2", "3"]
    assert _latest({**small, **large}) == {}
    assert list(_latest({**large, **small})) == ["0", "1", "2"]


def test_the_first_records_may_be_read_in_many_threads() -> None:
    """As the workflows of a worker do that has just begun. Unprepared, msgspec breaks every second
    process that does this."""
    for _ in range(4):
        subprocess.run([sys.executable, "-c", THREADS], check=True)
