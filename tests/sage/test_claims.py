"""What is said of a session in figures, and of its reliability: facts that hang on no clock."""

from contextlib import suppress
from pathlib import Path

from tests.patience import shell_until
from tests.sage.scene import calls, scene
from vegakit.sage import SageAgent, SageText
from vegakit.testing import Failure, ProviderReply, RequestStatus

MEGABYTE = 1 << 20


def test_eight_tools_run_at_once(tmp_path: Path) -> None:
    """Each waits until all eight have begun; one after the other they would wait for ever."""
    commands = [
        f"touch began.{n}; {shell_until('[ $(ls began.* | wc -l) = 8 ]')}; echo met"
        for n in range(8)
    ]
    wanted = calls(*(("shell", {"command": one, "timeout_s": 60}) for one in commands))
    with scene(tmp_path, [wanted, "Done."]) as it:
        events = it.events("-p", "Go.")
        ended = [event["result"] for event in events if event["type"] == "tool_ended"]
        assert len(ended) == 8
        assert all("met" in result for result in ended)


async def test_text_is_told_while_the_provider_still_speaks(tmp_path: Path) -> None:
    """Nothing waits for the whole answer: the first piece is there before the last is sent."""
    pieces = 12
    with scene(tmp_path, ProviderReply("word " * pieces, gap_ms=500)) as it, it.inside():
        async with SageAgent() as sage:
            async for event in sage.turn("Go."):
                if isinstance(event, SageText):
                    (request,) = it.provider.requests
                    assert request.status is RequestStatus.OPEN
                    assert request.sent < pieces
                    return
        raise AssertionError("no text was told")


def test_a_session_needs_little_memory(tmp_path: Path) -> None:
    """Also if a million lines of output are printed."""
    with scene(tmp_path, [calls(("shell", {"command": "seq 1 1000000"})), "Done."]) as it:
        peak = 0
        with it.start("-p", "Go.", "--json") as life:
            assert life.stdout is not None
            assert life.stderr is not None
            for _ in life.stdout:
                peak = max(peak, _most_resident(life.pid))
            assert life.wait() == 0, life.stderr.read()
        assert 0 < peak < 500 * MEGABYTE


def _most_resident(pid: int) -> int:
    """Return the peak of a process since it began its program; what the system tells of a child at
    its end takes in the process that started it. 0 if it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def test_a_failing_tool_does_not_fail_the_session(tmp_path: Path) -> None:
    """Neither one that fails, nor one that there is not, nor wrong arguments."""
    wanted = calls(
        ("read", {"path": "missing"}), ("no_such_tool", {}), ("shell", {"wrong": 1}), ("todo", {})
    )
    with scene(tmp_path, [wanted, "Done all the same."]) as it:
        events = it.events("-p", "Go.")
        assert events[-1]["reason"] == "done"
        assert events[-1]["text"] == "Done all the same."


def test_a_provider_that_is_overloaded_is_asked_again(tmp_path: Path) -> None:
    with scene(tmp_path, [Failure(529), Failure(529), "Done."]) as it:
        events = it.events("-p", "Go.")
        assert events[-1]["text"] == "Done."
        assert len(it.bodies) == 3
