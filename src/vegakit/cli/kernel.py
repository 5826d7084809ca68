"""`vega ps`, `kill`, `interrupts` and `answer` on a kernel that is served: `--at https://…`.

The caller is who the token in `VEGA_TOKEN` is of, so a command shows and does what that role may.
Questions are shown, paged and answered as those of a runtime: whole, by an id that stands for
exactly what was shown.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from vegakit.cli.look import (
    PIPE,
    Cell,
    Column,
    Look,
    Sign,
    Tone,
    duration,
    look_of,
    one_line,
    print_json,
    table,
)
from vegakit.concurrency import SteadyClock
from vegakit.config import environment_variable
from vegakit.control import (
    InterruptRecord,
    KernelClient,
    KernelProcess,
    ListInterruptsRequest,
    ListProcessesRequest,
    OperationError,
    Question,
    RefusalCode,
    ResolveInterruptRequest,
    TerminateProcessRequest,
    answer_from,
    short_id,
)
from vegakit.errors import UserError
from vegakit.policy import Approved, InterruptRule, InterruptStatus, ProcessState

T = TypeVar("T")

_TOKEN = "VEGA_TOKEN"  # noqa: S105  (the name of a variable)
_RULE = InterruptRule()
_STATES: Mapping[ProcessState, tuple[Sign, str]] = {
    ProcessState.NEW: (Sign.OPEN, Tone.PLAIN),
    ProcessState.READY: (Sign.WAITING, Tone.PLAIN),
    ProcessState.RUNNING: (Sign.WORKING, Tone.WORK),
    ProcessState.WAITING: (Sign.WAITING, Tone.PLAIN),
    ProcessState.BLOCKED: (Sign.HELD, Tone.ASK),
}
"""Those that live, in the order of their lives."""


def _call(url: str, work: Callable[[KernelClient], Awaitable[T]]) -> T:
    token = environment_variable(_TOKEN)
    if not token:
        raise UserError(
            f"a kernel wants to know who calls, and {_TOKEN} is not set; to make a token where the "
            f"server is, type: export {_TOKEN}=$(vega token create --tenant acme --user ann)"
        )

    async def run() -> T:
        async with KernelClient(url, token) as kernel:
            try:
                return await work(kernel)
            except OperationError as error:
                if error.code is not RefusalCode.UNAUTHENTICATED:
                    raise
                raise UserError(
                    f"the kernel at {url} does not know the token in {_TOKEN}, or it is no longer "
                    f"good; to make another where the server is, type: export {_TOKEN}=$(vega "
                    "token create --tenant acme --user ann)"
                ) from error

    return asyncio.run(run())


# Processes.


def show_processes(url: str, *, as_json: bool) -> int:
    """Show the processes of a kernel that have not ended."""
    processes = _call(url, _living)
    if as_json:
        print_json({"processes": processes})
    elif processes:
        print(render_processes(processes, SteadyClock().now(), look_of(sys.stdout)))
    else:
        print("No process lives there.")
    return 0


async def _living(kernel: KernelClient) -> list[KernelProcess]:
    found: list[KernelProcess] = []
    for state in _STATES:
        after = ""
        while True:
            page = await kernel.list_processes(ListProcessesRequest(state=state, after=after))
            found += page.processes
            if not page.next:
                break
            after = page.next
    # One that changed its state meanwhile is found twice, or not at all.
    return sorted({one.pid: one for one in found}.values(), key=lambda one: one.pid)


def render_processes(processes: Sequence[KernelProcess], now_ms: int, look: Look = PIPE) -> str:
    """Return the processes of a kernel as a table."""
    columns = (
        Column("Process", name=True),
        Column("State"),
        Column("For", right=True, drop=2),
        Column("Priority", drop=5),
        Column("User", drop=4, name=True),
        Column("Stage", drop=3),
        Column("Held by", drop=1, name=True),
    )
    rows = [
        (
            one_line(one.pid),
            _state(one),
            duration(now_ms - _since(one), brief=True),
            one.priority.value,
            one_line(one.user),
            one_line(one.stage),
            one_line(one.holder),
        )
        for one in processes
    ]
    return table(columns, rows, look)


def _state(process: KernelProcess) -> Cell:
    if process.interrupt is not None:
        return Cell(f"{Sign.ASKS} needs you", Tone.ASK)
    sign, tone = _STATES[process.state]
    return Cell(f"{sign} {process.state}", tone)


def _since(process: KernelProcess) -> int:
    """Return since when it waits for its turn, or runs, or is there."""
    if process.state is ProcessState.READY and process.ready_ms is not None:
        return process.ready_ms
    return process.started_ms or process.created_ms


def end_process(url: str, pid: str, *, tree: bool, as_json: bool) -> int:
    """End a process of a kernel, with `tree` all below it too."""
    request = TerminateProcessRequest(pid, reason="ended by vega kill", tree=tree)
    ended = _call(url, lambda kernel: kernel.terminate_process(request))
    if as_json:
        print_json(ended, lines=True)
    else:
        below = ", and all below it" if tree else ""
        look = look_of(sys.stdout)
        print(*look.marked(Sign.DONE, Tone.OK, f"ended: {one_line(ended.pid)}{below}"), sep="\n")
    return 0


# Questions.


def open_questions(url: str) -> list[InterruptRecord]:
    """Return the questions of a kernel that nobody has answered, the oldest first."""

    async def all_of(kernel: KernelClient) -> list[InterruptRecord]:
        found: list[InterruptRecord] = []
        after = ""
        while True:
            request = ListInterruptsRequest(status=InterruptStatus.PENDING, after=after)
            page = await kernel.list_interrupts(request)
            found += page.interrupts
            if not page.next:
                return found
            after = page.next

    asked = (one for one in _call(url, all_of) if _RULE.of(one.interrupt.ask.kind).needs_response)
    return sorted(asked, key=lambda one: one.interrupt.opened_ms)


def question_in(record: InterruptRecord) -> Question:
    """Return a question of a kernel as a person is shown it."""
    interrupt = record.interrupt
    ask = interrupt.ask
    return Question(
        short_id(ask.id),
        ask.kind,
        ask.owner,
        ask.text,
        interrupt.opened_ms,
        interrupt.expires_ms,
        _RULE.of(ask.kind).use_within_ms is not None,
        ask.action,
    )


def answer_question(url: str, typed: str, words: str) -> str:
    """Answer a question of a kernel, and return its id. Yes wants the whole id, so that nobody
    approves another one than they read."""
    records = {short_id(one.interrupt.ask.id): one for one in open_questions(url)}
    found = [short for short in records if short.startswith(typed)]
    if len(found) != 1:
        what = f"{typed!r} begins {len(found)} ids" if found else f"no question {typed!r} is open"
        raise UserError(f"{what}; to see what is asked, type: vega interrupts --at {url}")
    record = records[found[0]]
    question = question_in(record)
    answer = answer_from(words, permits=question.permits)
    if isinstance(answer, Approved) and typed != question.id:
        raise UserError(f"to approve, type the whole id: vega answer {question.id} yes --at {url}")
    request = ResolveInterruptRequest(record.interrupt.ask.id, answer, question.action)
    _call(url, lambda kernel: kernel.resolve_interrupt(request))
    return question.id
