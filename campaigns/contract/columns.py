"""The seven promises, each as one function that plays a row and says what it saw, or what broke.

A promise is shown to be judged by a fault: with `fault` the function breaks what it relies on, and
has to see it.
"""

import json
import re
import signal
from collections.abc import Callable
from functools import partial
from subprocess import Popen
from typing import Any, TypeAlias

from campaigns.contract.rows import Row
from campaigns.contract.stage import ANSWER, Done, Stage, require
from vegakit.conversation import Usage
from vegakit.testing import RequestStatus

ALL = ["Step 1", "Step 2", "Step 3"]
_REFUSED = "$0.05"
"""What a program by a model may cost; with a thousand sends it may cost more."""

Column: TypeAlias = Callable[[Stage, Row, bool], str]


def prepare(stage: Stage, row: Row, *plans: str) -> None:
    stage.write(row.work)
    stage.session = row.session
    stage.usage = row.usage if stage.usage == ANSWER else stage.usage
    stage.plan = iter(plans or ([row.plan] if row.plan else []))


def _money(text: str, pattern: str) -> float:
    found = re.search(pattern, text)
    require(found, f"it does not say what it may cost: {text[-300:]}")
    assert found
    return float(found[1])


def quote_before(stage: Stage, row: Row, fault: bool) -> str:
    """The most it may cost is said before the first ask, and it costs no more."""
    if fault:  # a provider that bills more than it was allowed to
        stage.usage = Usage(30, 5_000_000)
    if not row.plan:
        prepare(stage, row)
        quote = stage.run_well("vega", "cost", row.file, "--json").page["total_usd"]
        require(not stage.requests, f"{len(stage.requests)} were asked before the quote")
        stage.run(*row.command)
        billed = stage.billed_usd(len(stage.requests))
        require(stage.steps()[:1], "nothing was asked")
        require(billed <= quote, f"${billed} was billed, ${quote} quoted")
        return f"${quote:.4f} quoted, 0 asked before, ${billed:.5f} billed"
    many = 'for i in range(1000) { print(writer <- "Step 0, {i}."); }'
    costly = row.plan.replace("fn main() -> str {", f"fn main() -> str {{\n    {many}", 1)
    prepare(stage, row, costly, row.plan)
    done = stage.run_well(*row.command)
    refused = _money(done.out, r"refused \(cost\), nothing was run: it may cost \$([\d.]*\d)")
    quote = _money(done.out, r"quote\W+\$([\d.]*\d)")
    require(stage.steps() == ALL, f"asked {stage.steps()}: the refused program asked, too")
    billed = stage.billed_usd(len(ALL))
    require(billed <= quote, f"${billed} was billed, ${quote} quoted")
    return f"${refused:.2f} refused, 0 asked; ${quote:.4f} quoted, ${billed:.5f} billed"


def cap(stage: Stage, row: Row, fault: bool) -> str:
    """It never costs more than it may, and says so."""
    # Two steps fit, a third does not; for a model that writes a program, two of the program's.
    amount = f"${row.cap_usd * (10 if fault else 1):.4f}"
    if row.plan:
        files = {name: text.replace(_REFUSED, amount) for name, text in row.work.items()}
        body = row.plan.replace("fn main() -> str {", f"fn main() -> str budget {amount} {{")
        prepare(stage, row, body)
        stage.write(files)
    else:
        prepare(stage, row)
        stage.write({"vega.toml": f'[budget]\ndefault = "{amount}"\n'})
    done = stage.run(*row.command)
    billed = stage.billed_usd(len(stage.steps()))
    require(stage.steps(), f"nothing was asked: {done}")
    require(billed <= row.cap_usd, f"${billed:.5f} was billed, the cap is ${row.cap_usd}")
    said = done.out + done.err
    is_told = "BudgetExceeded" in said or "stopped: budget" in said
    require(is_told, f"nothing says that the cap was met: {done}")
    require(bool(done.code) is not bool(row.plan), f"the exit code is {done.code}")
    return f"{len(stage.steps())} of {3 * row.paths} asked, ${billed:.5f} of ${row.cap_usd} billed"


def _held_at_the_third(stage: Stage, row: Row) -> "Popen[str]":
    """Start it, and leave its third step without an answer, unless that was done here before."""
    if stage.held:
        return stage.started[0]
    prepare(stage, row)
    stage.held.add("Step 3")
    process = stage.start(*row.command)

    def third() -> bool:
        require(process.poll() is None or "Step 3" in stage.steps(), "it ended early")
        return "Step 3" in stage.steps()

    stage.until(third, "the third step is asked")
    return process


def kill_and_go_on(stage: Stage, row: Row, fault: bool) -> str:
    """After `kill -9` it goes on, and no answer that had arrived is asked for again."""
    process = _held_at_the_third(stage, row)
    process.send_signal(signal.SIGKILL)
    stage.end_of(process)
    before = stage.requests
    answered = [one.raw for one in before if one.status is RequestStatus.ANSWERED]
    if fault:
        for file in stage.home.rglob("vega.db*"):
            file.unlink()
    stage.held.clear()
    resumed = stage.run("vega", "resume")
    more = re.search(r"vega resume --budget '(\+\$[\d.]+)'", resumed.out + resumed.err)
    if row.paths > 1 and more:
        # Comparing takes paid repeats, too: a run that has none left is paused, and says so.
        resumed = stage.run_well("vega", "resume", "--budget", more[1])
    require(not resumed.code, f"it did not go on: {resumed}")
    after = stage.requests[len(before) :]
    again = [one for one in after if one.raw in answered]
    require(not again, f"{len(again)} of {len(answered)} answers were asked for again")
    require(row.result in resumed.out, f"it has not the result {row.result!r}: {resumed}")
    return f"{len(answered)} answered, {len(again)} asked again; {len(after)} more"


def kill_tree(stage: Stage, row: Row, fault: bool) -> str:
    """`vega kill --tree` ends it with all below it, and nothing is asked afterwards."""
    process = _held_at_the_third(stage, row)
    views = stage.run_well("vega", "ps", "--json").page["processes"]
    (top,) = [view["path"] for view in views if not view["parent"]]
    words = ("kill", "--tree", top) if not fault else ("ps",)
    killed = stage.run_well("vega", *words)
    require(
        "left: 0 processes, 0 tasks, 0 OS children" in killed.out, f"something is left: {killed}"
    )
    done = stage.end_of(process)
    require(done.code, f"what was killed ended well: {done}")
    stage.until(lambda: not stage.steps(RequestStatus.OPEN), "the ask in flight is hung up")
    known = [step for step in ALL[:2] for _ in range(row.paths)] + ALL[2:]
    require(stage.steps() == known, f"it asked on: {stage.steps()}")
    stage.until(lambda: not stage.processes_left(), "its OS processes are gone")
    return f"{len(views)} ended, 0 left, ask in flight hung up"


def trace(stage: Stage, row: Row, fault: bool) -> str:
    """Every call is in the trace, with what it cost."""
    if not stage.requests:  # else it was run here before, for another promise
        prepare(stage, row)
        stage.run_well(*row.command)
    if fault:  # one call is missing
        (file,) = stage.home.rglob("*.jsonl")
        lines = file.read_text().splitlines(keepends=True)
        lines.remove(next(line for line in lines if "claude-haiku" in line))
        file.write_text("".join(lines))
    listed = stage.run("vega", "trace", "--json")
    calls = sum(traced["calls"] for traced in listed.page)
    cost = sum(traced["cost_usd"] for traced in listed.page)
    asked, billed = len(stage.requests), stage.billed_usd(len(stage.requests))
    used = stage.requests[-1].tool_results if row.session else 0
    require(calls == asked + used, f"{calls} calls are traced, {asked} were asked: {listed}")
    require(abs(cost - billed) < 1e-9, f"${cost} is traced, ${billed} was billed")
    ids = [traced["trace_id"] for traced in listed.page]
    shown = [stage.run_well("vega", "trace", one).out for one in ids]
    lines = sum(text.count("claude-haiku") for text in shown)
    require(lines == asked, f"{lines} calls are shown in {shown}")
    return f"{calls} of {asked + used} calls, ${cost:.5f}"


def approval(stage: Stage, row: Row, fault: bool) -> str:
    """A person is asked before it acts; no means that nothing happens, yes that it happens once."""
    stage.calls = [{"amount": amount} for amount in row.calls]
    prepare(stage, row, row.payment_plan)
    stage.write(row.payment)
    process = stage.start(*(row.pays or row.command))
    ids: list[str] = []
    for amount, word in ((30, "yes" if fault else "no"), (40, "yes")):
        question = stage.until(
            partial(_question, stage, amount), f"somebody is asked about {amount}"
        )
        require(not (stage.folder / "paid.txt").exists(), "it was paid before anybody said yes")
        ids.append(question["id"])
        stage.run_well("vega", "answer", question["id"], word)
    done = stage.end_of(process)
    require(done.code == 0, f"it failed: {done}")
    paid = (stage.folder / "paid.txt").read_text().split()
    require(paid == ["40"], f"paid was {paid}, approved was 40")
    return "2 questions; no: 0 paid, yes: 1 paid"


def _question(stage: Stage, amount: int) -> Any:
    shown: Done = stage.run("vega", "interrupts", "--json")
    asked: list[dict[str, Any]] = shown.page if shown.code == 0 else []
    return next((one for one in asked if str(amount) in json.dumps(one)), None)


def live_view(stage: Stage, row: Row, fault: bool) -> str:
    """`vega ps` shows what runs, what it waits for and what was spent, from another terminal."""
    _held_at_the_third(stage, row)
    if fault:
        stage.environment["VEGA_OBSERVABLE_SOCKETS"] = str(stage.folder / "elsewhere")
    seen = stage.run_well("vega", "ps", "--json").page
    waiting = [one["waiting_for"] for one in seen["processes"] if one["state"] == "waiting"]
    require(any("claude-haiku" in what for what in waiting), f"nothing waits for a model: {seen}")
    billed = stage.billed_usd(len(stage.requests) - len(stage.steps(RequestStatus.OPEN)))
    spent = seen["runtime"]["spent_usd"]
    require(abs(spent - billed) < 1e-9, f"${spent} is shown, ${billed} was billed")
    tree = stage.run_well("vega", "tree").out
    names = [one["path"].rpartition("/")[2] for one in seen["processes"]]
    require(all(name in tree for name in names), f"the tree is {tree}")
    return f"{len(seen['processes'])} shown, ${spent:.5f} spent, waits for the model"


STORIES = (
    ("quote before", "trace"),
    ("cap",),
    ("`kill -9` and go on",),
    ("live view", "kill tree"),
    ("approval",),
)
"""Promises that are looked at in one run, in this order: a start costs more than a look."""

COLUMNS: dict[str, Column] = {
    "quote before": quote_before,
    "cap": cap,
    "`kill -9` and go on": kill_and_go_on,
    "kill tree": kill_tree,
    "trace": trace,
    "approval": approval,
    "live view": live_view,
}
