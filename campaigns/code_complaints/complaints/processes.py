"""Processes that are left behind: after the end, after a kill, after Ctrl-C, in the background."""

import signal

from campaigns.code_complaints.bench import Bench, Say, shell
from campaigns.code_complaints.trajectory import Faults, complaint


@complaint(
    "anthropics/claude-code #43944, #76814",
    "what a command left in the background ends with the session",
)
def orphans_after_the_end(it: Bench) -> Faults:
    """It has left its session and its terminal, as servers do."""
    it.script(Say("", [shell("setsid nohup sleep 300 >/dev/null 2>&1 & echo started")]), "Done.")
    ran = it.ask("Start the server.", limit_s=60)
    if ran.left:
        yield f"left: {', '.join(ran.left)}"
    if ran.killed or ran.status != 0:
        yield f"exit status {ran.status} {ran.killed}"


@complaint(
    "anthropics/claude-code #27959, #50865",
    "a command whose child keeps its output open does not hold the turn",
)
def background_job(it: Bench) -> Faults:
    """A server is started with `&`, and nothing is redirected."""
    it.script(Say("", [shell("sleep 300 & echo started")]), "Done.")
    ran = it.ask("Start the server.", limit_s=40)
    if ran.killed:
        yield f"no end in {ran.seconds:.0f} s"
    elif ran.status != 0:
        yield f"exit status {ran.status}"
    if ran.left:
        yield f"left: {', '.join(ran.left)}"


@complaint(
    "anthropics/claude-code #93996, #21287",
    "kill -9 of the agent alone leaves none of its commands running",
)
def orphans_after_a_kill(it: Bench) -> Faults:
    """A second later."""
    it.script(Say("", [shell("touch started; sleep 300; sleep 300")]), "Done.")
    ran = it.ask("Wait.", when=(it.folder / "started").exists, order="kill main", limit_s=60)
    if ran.killed != "planned":
        yield f"the command did not start: {ran.said.strip()[-80:]}"
    if ran.left:
        yield f"left: {', '.join(ran.left)}"


@complaint(
    "anthropics/claude-code #27959",
    "Ctrl-C ends the agent and its commands within two seconds",
)
def interrupted(it: Bench) -> Faults:
    """Also a command that ignores it."""
    it.script(Say("", [shell("trap '' INT TERM; touch started; sleep 300; sleep 300")]), "Done.")
    order = f"signal {signal.SIGINT.value}"
    ran = it.ask("Wait.", when=(it.folder / "started").exists, order=order, limit_s=60)
    if not (it.folder / "started").exists():
        yield f"the command did not start: {it.told(2)[-300:]}"
        return
    if ran.killed or ran.since_order_s > 2:
        yield f"ended {ran.since_order_s:.1f} s later {ran.killed}"
    if ran.left:
        yield f"left: {', '.join(ran.left)}"
    if ran.status == 0:
        yield "exit status 0"
