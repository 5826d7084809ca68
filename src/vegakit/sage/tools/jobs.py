"""Commands that run in the background while the agent does other things.

    shell with background ─▶ job ─▶ what it says is kept, the last of it ─▶ read, stop
                                └─▶ ends by itself, or with the turn

A job ends with the turn that began it, and so does the window in which undo records what it
changes: what a turn has written is known when the turn has ended. What a person saves meanwhile
cannot be told from what it wrote, so undo keeps both, and names them. It runs in the sandbox of
the shell, under the same limits, but for an hour.
"""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

from msgspec import Struct

from vegakit.concurrency import cancel_all, run_to_completion
from vegakit.errors import ToolFailed, VegaError
from vegakit.policy import mark_untrusted, sanitise
from vegakit.ports import Clock, CommandResult
from vegakit.sage.tools.workspace import COUNT, SageTool, Workspace, spec_of
from vegakit.sage.undo.windows import Reach
from vegakit.tools import ToolRights

_LONGEST_S, _LONGEST_WAIT_S, _MOST = 3_600, 60, 8
_KEPT_BYTES = 1_000_000


class JobArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `job`."""

    id: int
    action: Literal["read", "stop"]
    wait_s: int = 5


class _Job:
    """A command under way: what it said and was not read, and how it ended."""

    def __init__(self, started_ms: int) -> None:
        self.started_ms = started_ms
        self.unread = bytearray()
        self.lost = 0
        self.changed = asyncio.Event()
        self.task: asyncio.Task[CommandResult] | None = None

    def hear(self, piece: bytes) -> None:
        """Keep what the command says."""
        self.unread += piece
        over = max(0, len(self.unread) - _KEPT_BYTES)
        self.lost += over
        del self.unread[:over]
        self.changed.set()

    def take(self) -> str:
        """Return what was not read yet, and forget it."""
        text = self.unread.decode("utf-8", errors="replace")
        lost = f"[{self.lost:,} bytes before this were dropped]\n" if self.lost else ""
        self.unread, self.lost = bytearray(), 0
        self.changed.clear()
        return lost + text


class Jobs:
    """The jobs of a session; as a context they are ended when it is left, at the end of a turn."""

    def __init__(self, workspace: Workspace, clock: Clock) -> None:
        self._workspace, self._clock = workspace, clock
        self._jobs: dict[int, _Job] = {}
        self._last = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        jobs, self._jobs = self._jobs, {}
        tasks = [job.task for job in jobs.values() if job.task is not None]
        # Also when the turn is cancelled: none may write when its window is closed.
        await run_to_completion(cancel_all(tasks))

    def tool(self) -> SageTool:
        """Return the tool that reads and stops jobs."""
        return SageTool(
            spec_of("job", _TOLD_JOB, _JOB, "id action"),
            JobArguments,
            self._look,
            lambda _: ToolRights(()),
            idempotent=False,
            timeout_ms=1_000 * (_LONGEST_WAIT_S + 60),
        )

    def start(self, argv: list[str]) -> str:
        """Begin a command, and return what the model is told of it."""
        running = [job for job in self._jobs.values() if job.task and not job.task.done()]
        if len(running) >= _MOST:
            raise ToolFailed(f"{_MOST} jobs run already; stop one of them: job with action stop")
        self._last += 1
        job = self._jobs[self._last] = _Job(self._clock.now())
        job.task = asyncio.create_task(self._run(job, argv))
        job.task.add_done_callback(lambda _: job.changed.set())
        return f"job {self._last} runs; it ends with this turn at the latest"

    async def _run(self, job: _Job, argv: list[str]) -> CommandResult:
        async with self._workspace.changing(reach=Reach.JOB):
            return await self._workspace.in_sandbox(argv, seconds=_LONGEST_S, on_output=job.hear)

    async def _look(self, given: JobArguments) -> str:
        job = self._jobs.get(given.id)
        if job is None or job.task is None:
            known = ", ".join(map(str, self._jobs)) or "none"
            raise ToolFailed(
                f"there is no job {given.id} (there are: {known}); jobs end with their turn: begin "
                "it again by shell with background"
            )
        if given.action == "stop":
            await cancel_all([job.task])
        elif not job.task.done():
            wait_s = min(max(given.wait_s, 0), _LONGEST_WAIT_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await job.changed.wait()
        text = job.take()
        said = mark_untrusted(sanitise(await self._workspace.capped("output", text)))
        return "\n".join([*([said] if text.strip() else []), self._state(given.id, job)])

    def _state(self, number: int, job: _Job) -> str:
        assert job.task is not None
        if not job.task.done():
            seconds = (self._clock.now() - job.started_ms) // 1_000
            return f"job {number} runs since {seconds} s"
        if job.task.cancelled():
            return f"job {number} was stopped"
        if isinstance(error := job.task.exception(), VegaError):
            return f"job {number} failed: {sanitise(str(error))}"
        ran = job.task.result()
        return "\n".join([*ran.notes, f"job {number} ended with exit code {ran.exit_code}"])


_TOLD_JOB = (
    "Read what a job of shell said since the last read, waiting for more up to wait_s, or stop it."
)
_JOB: dict[str, Any] = {
    "id": COUNT,
    "action": {"enum": ["read", "stop"]},
    "wait_s": {**COUNT, "maximum": _LONGEST_WAIT_S},
}
