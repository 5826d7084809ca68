"""Drive coding agents through the complaints: `python -m campaigns.code_complaints [AGENT…]`.

Without a name it is Sage alone, `beside` is Sage and every rival that is installed; `--only NAME`
chooses trajectories. The runs of all are in a network that has only the loopback device, if the
machine allows it. Prints a table, its figures last; exits 1 when Sage fails one.
"""

import argparse
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from datetime import UTC, datetime

from campaigns.code_complaints import complaints
from campaigns.code_complaints.agents import AGENTS, CACHE
from campaigns.code_complaints.bench import Bench
from campaigns.code_complaints.trajectory import COMPLAINTS, PENDING, Verdict, judge

__all__ = ["complaints", "main"]

_ISOLATED = "VEGA_COMPLAINTS_ISOLATED"
_UP, _RUNNING, _SIOCSIFFLAGS = 0x1, 0x40, 0x8914
_MARKS = {True: "pass", False: "FAIL", None: "n/a"}


def into_own_network() -> bool:
    """Start this command again where only the loopback device is; return whether it is so."""
    if os.environ.get(_ISOLATED):
        with socket.socket() as any_socket:
            flags = struct.pack("16sH14x", b"lo", _UP | _RUNNING)
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, flags)
        return True
    options = ["-n"] if os.geteuid() == 0 else ["-r", "-n"]
    unshare = shutil.which("unshare")
    if unshare and not subprocess.run([unshare, *options, "true"], check=False).returncode:
        spec = sys.modules["__main__"].__spec__
        assert spec is not None
        module = spec.name.removesuffix(".__main__")
        command = [unshare, *options, sys.executable, "-m", module, *sys.argv[1:]]
        os.execve(unshare, command, {**os.environ, _ISOLATED: "1"})
    return False


def main() -> int:
    """Run what is asked for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", nargs="*", default=["sage"])
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--markdown", action="store_true", help="as a table for a page")
    parser.add_argument("--patience", type=float, default=1.0, help="times all limits of time")
    chosen = parser.parse_args()
    Bench.patience = chosen.patience
    is_isolated = into_own_network()
    names = [*AGENTS] if chosen.agents == ["beside"] else chosen.agents
    agents = [name for name in names if AGENTS[name]().program() is not None]
    for name in sorted({*names} - {*agents}):
        print(f"{name}: not installed, so not in the table")
    # Not below /tmp, which the sandbox of a rival leaves writable: there nothing is outside.
    base = CACHE.parent / "vega-complaints"
    base.mkdir(parents=True, exist_ok=True)
    found: dict[tuple[str, str], Verdict] = {}
    for trajectory in COMPLAINTS.values():
        if chosen.only and trajectory.name not in chosen.only:
            continue
        for name in agents:
            verdict = judge(AGENTS[name](), trajectory, base)
            found[trajectory.name, name] = verdict
            print(
                f"{trajectory.name:<34} {name:<9} {_MARKS[verdict.passed]:<5} {verdict.cell}",
                flush=True,
            )
    if chosen.markdown:
        show_markdown(agents, found)
    return figures(agents, found, is_isolated=is_isolated)


def show_markdown(agents: list[str], found: dict[tuple[str, str], Verdict]) -> None:
    """Print the table as Markdown."""
    print("\n| what must hold | threads |", " | ".join(agents), "|")
    print("|---" * (len(agents) + 2) + "|")
    for name, trajectory in COMPLAINTS.items():
        cells = [found[name, agent] for agent in agents if (name, agent) in found]
        if cells:
            shown = [f"{_MARKS[c.passed]}{'' if c.passed else f': {c.cell}'}" for c in cells]
            print(f"| {trajectory.holds} | {trajectory.threads} |", " | ".join(shown), "|")


def figures(agents: list[str], found: dict[tuple[str, str], Verdict], *, is_isolated: bool) -> int:
    """Print how many hold for each agent; return whether one of Sage's does not."""
    network = "loopback only" if is_isolated else "as the machine has it"
    system = f"{os.uname().sysname} {os.uname().release}"
    print(f"\n{datetime.now(UTC):%Y-%m-%d}, {system}, network: {network}")
    for agent in agents:
        of = {name: verdict.passed for (name, who), verdict in found.items() if who == agent}
        passed, failed = (sum(p is x for p in of.values()) for x in (True, False))
        version = AGENTS[agent]().version()
        rest = len(of) - passed - failed
        print(f"{agent:<9} {version:<24} {passed} hold, {failed} do not, {rest} n/a")
    short = sorted(n for (n, who), v in found.items() if who == "sage" and v.passed is False)
    waiting = [name for name in short if name in PENDING]
    for name in waiting:
        print(f"pending: {name}, until there is {PENDING[name]}")
    over = sorted(n for (n, who), v in found.items() if who == "sage" and v.passed and n in PENDING)
    for name in over:
        print(f"no longer pending: {name}; take it out of the table")
    return int(bool({*short} - {*waiting}) or bool(over))


if __name__ == "__main__":
    sys.exit(main())
