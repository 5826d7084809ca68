"""A runtime in another OS process, looked into over its socket."""

import asyncio
import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.runtime.viewing.conftest import Watch
from tests.runtime.viewing.watched import KEY
from vegakit.control import ControlClient, KillResult
from vegakit.control.sockets import find, running_runtimes
from vegakit.errors import UserError


def remote(directory: Path) -> ControlClient:
    return ControlClient(find(None, directory))


def is_running(os_pid: int) -> bool:
    """A zombie is not."""
    try:
        return Path(f"/proc/{os_pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_whole_tree_is_seen(watch: Watch, tmp_path: Path) -> None:
    """In tree order, with what each does and waits for."""
    process = watch()
    there = remote(tmp_path).blocking
    views = {view.path: view for view in there.ps()}
    assert list(views) == [
        "team",
        "team/coder",
        "team/coder/aide",
        "team/critic",
        "counter",
        "stubborn",
        "flaky",
    ]
    assert {path: str(view.kind) for path, view in views.items()} == {
        "team": "supervisor",
        "team/coder": "agent",
        "team/coder/aide": "function",
        "team/critic": "agent",
        "counter": "reducer",
        "stubborn": "function",
        "flaky": "service",
    }
    assert views["team/coder"].waiting_for == "model slow:model"
    assert views["team/coder/aide"].os_children == 1
    assert (views["counter"].waiting_for, views["counter"].state) == ("timer", "idle")
    assert (views["flaky"].health, views["flaky"].restarts) == ("failing", 1)
    runtime = there.info()
    assert (runtime.name, runtime.os_pid, runtime.processes) == ("night", process.pid, 6)
    assert (runtime.os_children, runtime.program) == (1, views["team"].pid.partition("/")[0])


def test_no_key_is_shown(watch: Watch, tmp_path: Path) -> None:
    """Neither in the reason of an exit nor in the log that tells of it."""
    watch()
    there = remote(tmp_path).blocking
    told = [entry.note for entry in there.logs("flaky")]
    assert told[-1] == "life 2, after crashed(ValueError: bad luck with [redacted])"
    assert KEY not in f"{there.ps()}{told}"


def test_a_killed_life_is_followed_by_the_next(watch: Watch, tmp_path: Path) -> None:
    """What that life had started is gone; the supervisor is not."""
    watch()
    there = remote(tmp_path).blocking
    killed = there.kill("coder")
    assert killed == KillResult(("team/coder", "team/coder/aide"), 0, 0, 0, ("team/coder",))
    views = {view.path: view for view in there.ps()}
    assert views["team/coder"].restarts == 1
    assert not any(view.os_children for view in views.values())


def test_nothing_of_a_killed_tree_survives(watch: Watch, tmp_path: Path) -> None:
    """No process, no task, no OS child; a sibling lives on."""
    process = watch()
    there = remote(tmp_path).blocking
    sleeper = sleepers_of(process.pid)
    assert [is_running(one) for one in sleeper] == [True]
    killed = there.kill("team", tree=True)
    ended = ("team", "team/coder", "team/coder/aide", "team/critic")
    assert killed == KillResult(ended, 0, 0, 0)
    assert [is_running(one) for one in sleeper] == [False]
    assert there.kill("stubborn", tree=True) == KillResult(("stubborn",), 0, 0, 0)
    assert [view.path for view in there.ps()] == ["counter", "flaky"]


def sleepers_of(os_pid: int) -> list[int]:
    """`sleep` at any depth below it."""
    command = ["ps", "-eo", "pid=,ppid=,comm="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    family = {os_pid}
    for _ in rows:
        family |= {int(pid) for pid, above, _ in rows if int(above) in family}
    return [int(pid) for pid, _, name in rows if int(pid) in family and name == "sleep"]


def test_logs_are_followed(watch: Watch, tmp_path: Path) -> None:
    """What happens later comes later, on the same call."""
    watch()
    there = remote(tmp_path)

    async def following() -> list[str]:
        heard: list[str] = []
        async for entry in there.logs("stubborn", follow=True):
            heard.append(entry.what)
            if heard == ["spawned"]:
                await there.kill("stubborn", tree=True)
            if "exited" in heard:
                break
        return heard

    assert asyncio.run(asyncio.wait_for(following(), 20)) == ["spawned", "exited"]


def test_what_cannot_be_killed_says_what_to_type(watch: Watch, tmp_path: Path) -> None:
    """And nothing is ended."""
    watch()
    there = remote(tmp_path).blocking
    for wanted, tree, says in [
        ("team", False, r"team is a supervisor .* type: vega kill --tree team"),
        ("teem", False, r"there is no process 'teem'; did you mean team\?"),
        ("zzzz", True, r"there is no process 'zzzz'; to see them, type: vega ps"),
    ]:
        with pytest.raises(UserError, match=says):
            there.kill(wanted, tree=tree)
    assert len(there.ps()) == 7


def test_a_request_that_is_not_understood_is_told_so(watch: Watch, tmp_path: Path) -> None:
    """Of a later version, of no known verb, or no request at all."""
    watch()
    for asked, says in [
        (b'{"v":2,"verb":"ps"}\n', b"in version 1, not 'ps' in version 2"),
        (b'{"v":1,"verb":"dance"}\n', b"this runtime knows info, ps, kill, logs"),
        (b"hello\n", b"JSON is malformed"),
    ]:
        with socket.socket(socket.AF_UNIX) as calling:
            calling.connect(str(find(None, tmp_path)))
            calling.sendall(asked)
            assert says in calling.makefile("rb").read()


def test_a_runtime_that_ends_takes_its_socket_along(watch: Watch, tmp_path: Path) -> None:
    """And one that was killed leaves it to whoever looks next."""
    ending, killed = watch("ending"), watch("killed")
    there = remote_of(tmp_path, "ending")
    assert ending.stdin is not None
    ending.stdin.close()
    assert ending.wait(20) == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"{killed.pid}-killed.sock"]
    with pytest.raises(UserError, match=r"does not answer .* it may have ended"):
        there.blocking.ps()
    os.kill(killed.pid, 9)
    killed.wait(20)
    assert [path.name for path in tmp_path.iterdir()] == [f"{killed.pid}-killed.sock"]
    assert running_runtimes(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def remote_of(directory: Path, name: str) -> ControlClient:
    return ControlClient(find(name, directory))
