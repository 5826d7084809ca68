"""Admission of programs that models and clients send: they are checked in worker processes, clients
in turns.

    look ─▶ quick queue ─ few steps ─▶ told
               └─ more ─▶ slow queue, at low priority ─ all steps ─▶ told, or refused: too much

A program that makes little work never waits for one that makes much: the quick queue gives each
a few milliseconds, and whoever sent one that takes more is served by the slow queue, until a
program of theirs is quick again. In a queue clients take turns, so a flood delays whoever sends
it.

| goes wrong                          | then                                                  |
|-------------------------------------|-------------------------------------------------------|
| its process is not there yet        | a thread of the runtime gives it the few steps        |
| its process ends, or is ended       | the program is refused; others wait for a new process |
| no process can be started           | a thread of the runtime looks; steps bound it too     |
| time is not the world's, as in tests | it is looked at on the spot                          |
"""

import asyncio
import logging
import pickle
import struct
import sys
from asyncio.subprocess import PIPE
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from vegakit.child_process import ChildProcess, Children
from vegakit.concurrency import SteadyClock
from vegakit.conversation import AssistantMessage, Message, ModelRequest, Text, UserMessage
from vegakit.errors import BugError, UserError, VegaError
from vegakit.lang import MOST_STEPS
from vegakit.ports import Clock
from vegakit.program import (
    AdmissionRequest,
    Inspection,
    ProgramGrant,
    RemoteTokenCount,
    inspect_program,
    too_complex_inspection,
)

ReadText = Callable[[str], Awaitable[str | None]]

_LOG = logging.getLogger("vegakit")
_HEAD = struct.Struct(">I")
_QUICK_STEPS = 10_000
"""About twenty milliseconds: five times what a program of 2,000 characters mostly takes."""
_LOW_PRIORITY = 10
_MOST_WAITING, _MOST_OF_ONE = 256, 32
"""Programs that wait in a lane, of all clients and of one: each holds its text in memory."""
_MOST_HEAVY = 1_000
_WITHIN_S = 60.0
_LARGE, _LONG = 1 << 16, 8_000
"""Bytes that are read, and characters that are counted, in a thread beside the loop."""
_OWNER = "vega admission"
_NOT_LOOKED_AT = "a program could not be looked at, which is a fault of Vega and not its own"
_HERE = Path(__file__).resolve()
_WORKER = _HERE.with_name("admission_worker.py")
_BOOT = f"""
import sys, importlib.util as util
sys.path.insert(0, {str(_HERE.parents[2])!r})
spec = util.spec_from_file_location("vegakit_admission_worker", {str(_WORKER)!r})
worker = sys.modules[spec.name] = util.module_from_spec(spec)
spec.loader.exec_module(worker)
worker.main()
"""


class PreparedGrant:
    """A leave, made ready once to be sent; its models stay here and are asked by name."""

    def __init__(self, grant: ProgramGrant) -> None:
        self.grant = grant
        self._counts = grant.terms.counts
        away = replace(grant, terms=grant.terms.renamed(RemoteTokenCount))
        try:
            self.sent: bytes | None = pickle.dumps(away, pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, TypeError, AttributeError):
            self.sent = None  # something of the caller's own: looked at here

    async def count(
        self, name: str, request: ModelRequest, said: tuple[tuple[bool, str, int], ...], size: int
    ) -> int:
        """Return how many tokens a request with these messages has at most. `size` is the length of
        what was received: a model takes its time over what is long, so that is counted in a
        thread."""
        messages = tuple(_message(request.model, *one) for one in said)
        whole = structs.replace(request, messages=messages)
        if size + sum(len(unit) * times for _, unit, times in said) < _LONG:
            return self._counts[name](whole)
        return await asyncio.to_thread(self._counts[name], whole)


@dataclass(eq=False)
class _Job:
    kind: AdmissionRequest
    text: str
    name: str
    permit: PreparedGrant
    client: str
    read: ReadText | None
    outcome: "asyncio.Future[Inspection | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    async def in_a_thread(self, most: int) -> Inspection | None:
        loop = asyncio.get_running_loop()

        def fetch(used: str) -> str | None:
            return asyncio.run_coroutine_threadsafe(self.fetch(used), loop).result(_WITHIN_S)

        grant = self.permit.grant
        return await asyncio.to_thread(
            inspect_program, self.kind, self.text, self.name, grant, most, fetch
        )

    async def fetch(self, used: str) -> str | None:
        return None if self.read is None else await self.read(used)


class AdmissionService:
    """The admission of programs that models write, one for a runtime. Nothing is started before
    `warm`."""

    def __init__(self, children: Children, clock: Clock) -> None:
        self._real = isinstance(clock, SteadyClock)
        self._quick = _ReviewQueue(children, _QUICK_STEPS, 0)
        self._slow = _ReviewQueue(children, MOST_STEPS, _LOW_PRIORITY)
        self._heavy: OrderedDict[str, None] = OrderedDict()

    def warm(self, *, wholly: bool = False) -> None:
        """Starts the quick one before somebody waits for it, `wholly` the slow one too; from a
        running loop."""
        if self._real:
            self._quick.warm()
            if wholly:
                self._slow.warm()

    async def ready(self) -> list[int]:
        """The ids of both processes, when they are there."""
        self.warm(wholly=True)
        return [*await self._quick.ready(), *await self._slow.ready()]

    async def inspect_program(
        self,
        kind: AdmissionRequest,
        text: str,
        name: str,
        permit: PreparedGrant,
        client: str,
        read: ReadText | None = None,
    ) -> Inspection:
        """Inspect a program in a process of its own. `client` is whose turn it takes; `read` gives
        the texts of other files."""
        if not self._real:
            return inspect_program(
                kind, text, name, permit.grant, MOST_STEPS
            ) or too_complex_inspection(kind)
        queues = (self._slow,) if client in self._heavy else (self._quick, self._slow)
        reviewed: Inspection | None = None
        for queue in queues:
            reviewed = await queue.inspect_program(_Job(kind, text, name, permit, client, read))
            self._remember(client, reviewed)
            if reviewed is not None:
                return reviewed
        return too_complex_inspection(kind)

    def _remember(self, client: str, reviewed: Inspection | None) -> None:
        self._heavy.pop(client, None)
        if reviewed is None or reviewed.steps > _QUICK_STEPS:
            self._heavy[client] = None
            if len(self._heavy) > _MOST_HEAVY:
                self._heavy.popitem(last=False)

    async def aclose(self) -> None:
        """End the processes that inspect programs."""
        await self._quick.aclose()
        await self._slow.aclose()


class _ReviewQueue:
    """A process, and who waits for it: clients in turns, each with its jobs in order."""

    def __init__(self, children: Children, most: int, niceness: int) -> None:
        self._children, self._most, self._niceness = children, most, niceness
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        self._count = 0
        self._due = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._child: ChildProcess | None = None
        self._has_none = False
        self._has_lost_one = False

    def warm(self) -> None:
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())
        if self._child is None and self._starting is None and not self._has_none:
            self._starting = asyncio.ensure_future(self._start())

    async def ready(self) -> list[int]:
        while self._starting is not None:
            await asyncio.wait([self._starting])
        return [] if self._child is None else [self._child.pid]

    async def inspect_program(self, job: _Job) -> Inspection | None:
        """Inspect a program; return None if it takes more steps than this queue gives."""
        self.warm()
        mine = len(self._waiting.get(job.client, ()))
        if job.kind is not AdmissionRequest.ADMIT and (
            self._count >= _MOST_WAITING or mine >= _MOST_OF_ONE
        ):
            raise UserError(
                f"{self._count} programs wait to be looked at, {mine} of them yours; send this one "
                "again when some of them are answered"
            )
        self._waiting.setdefault(job.client, deque()).append(job)
        self._count += 1
        self._due.set()
        return await job.outcome

    async def aclose(self) -> None:
        self._has_none = True
        for task in filter(None, (self._running, self._starting)):
            task.cancel()
            await asyncio.wait([task])
        await self._let_go()
        while (job := self._next()) is not None:
            job.outcome.cancel()

    def _next(self) -> _Job | None:
        """The client whose turn it was is behind all others then."""
        while self._waiting:
            client, jobs = self._waiting.popitem(last=False)
            while jobs:
                job = jobs.popleft()
                self._count -= 1
                if not job.outcome.done():
                    if jobs:
                        self._waiting[client] = jobs
                    return job
        return None

    async def _run(self) -> None:
        while True:
            job = self._next()
            if job is None:
                self._due.clear()
                await self._due.wait()
                continue
            if self._waits_for_process and self._starting is not None:
                await asyncio.wait([self._starting])
            await self._serve(job)

    @property
    def _waits_for_process(self) -> bool:
        """A thread of the runtime has no limit but the steps. So only few are made there, and none
        after a process was lost: then some program may cost more than its steps say, and be sent
        again while there is no process."""
        return self._most > _QUICK_STEPS or self._has_lost_one

    async def _start(self) -> None:
        self._child = await self._started()
        self._has_none = self._child is None
        self._starting = None

    async def _serve(self, job: _Job) -> None:
        """Let a process inspect. Whatever goes wrong while it does, it is not used again."""
        child = self._child
        try:
            if child is None or job.permit.sent is None:
                reviewed = await job.in_a_thread(self._most)
            else:
                async with asyncio.timeout(_WITHIN_S):
                    reviewed = await self._exchange(child, job)
        except (OSError, EOFError, TimeoutError) as error:
            _LOG.warning("the process that looks at programs ended (%r); another is started", error)
            self._has_lost_one = True
            await self._let_go()
            if not job.outcome.done():
                job.outcome.set_result(None)
        except asyncio.CancelledError:
            job.outcome.cancel()
            raise
        except Exception as error:  # noqa: BLE001
            await self._let_go()
            if not job.outcome.done():
                job.outcome.set_exception(error if isinstance(error, VegaError) else _bug(error))
        else:
            if not job.outcome.done():
                job.outcome.set_result(reviewed)

    async def _let_go(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.end(grace_ms=0)
            self.warm()

    async def _exchange(self, child: ChildProcess, job: _Job) -> Inspection | None:
        await _send(child, (job.kind, job.text, job.name, job.permit.sent, self._most))
        while True:
            message, size = await _receive(child)
            match message:
                case ["count", name, request, said]:
                    await _send(child, await job.permit.count(name, request, said, size))
                case ["read", used]:
                    await _send(child, await job.fetch(used))
                case ["looked", reviewed]:
                    return reviewed
                case ["failed", why]:
                    raise BugError(f"{_NOT_LOOKED_AT}: {why}")
                case strange:
                    raise EOFError(f"it said {strange!r}")

    async def _started(self) -> ChildProcess | None:
        argv = [sys.executable, "-I", "-X", "utf8", "-c", _BOOT]
        try:
            child = await self._children.start(argv, cwd="/", env={}, owner=_OWNER, stdin=PIPE)
            async with asyncio.timeout(_WITHIN_S):
                await _send(child, (self._niceness,))
                await _receive(child)
        except (OSError, EOFError, TimeoutError, UserError) as error:
            _LOG.warning("programs are looked at in the runtime itself: %s", error)
            return None
        return child


def _message(model: str, is_answer: bool, unit: str, times: int) -> Message:
    said = (Text(unit * times),)
    return AssistantMessage(said, model) if is_answer else UserMessage(said)


def _bug(error: Exception) -> BugError:
    """The same, whoever looked: a process tells of what it did not expect in words, a thread
    raises it."""
    bug = BugError(f"{_NOT_LOOKED_AT}: {type(error).__name__}: {error}")
    bug.__cause__ = error
    return bug


async def _send(child: ChildProcess, content: object) -> None:
    body = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    assert child.stdin is not None
    child.stdin.write(_HEAD.pack(len(body)) + body)
    await child.stdin.drain()


async def _receive(child: ChildProcess) -> tuple[Any, int]:
    """A message, and how long it was."""
    (size,) = _HEAD.unpack(await child.stdout.readexactly(_HEAD.size))
    body = await child.stdout.readexactly(size)
    if size < _LARGE:
        return pickle.loads(body), size  # noqa: S301
    return await asyncio.to_thread(pickle.loads, body), size
