"""The worker process that checks programs: started ahead of need, used again, and killed at any
time.

    runtime ── kind, text, grant, steps ──▶ looks ── Looked, or None: too many steps ──▶ runtime
                                              └─ how many tokens? which text? ──▶ runtime ─┘

Steps are what bounds a program. Should one cost more than its steps say, the kernel ends this
process: by the CPU time of one program, and by the memory above what it has when it is idle. It
is loaded by its path, so that of the package only what looks at programs is imported, and it
speaks pickles with the runtime alone, which started it and is of the same user.
"""

import gc
import os
import pickle
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, BinaryIO

from msgspec.structs import replace

from vegakit.conversation import AssistantMessage, Message, ModelRequest, Text, UserMessage
from vegakit.lang import MOST_STEPS
from vegakit.money import Money
from vegakit.program import (
    AdmissionRequest,
    AgentTerms,
    ProgramGrant,
    ProgramRights,
    inspect_program,
    token_counter,
)

_HEAD = struct.Struct(">I")
_MOST_CPU_S = 4.0
"""Of one program: ten times what its steps come to on a slow machine."""
_MOST_MEMORY = 80 << 20
_KEPT = 16
_SAMPLES = {
    "vega": 'agent A { model "m" }\nfn main(items: [str; 3]) -> str {\n let all = "";\n'
    ' for item in items { all = all + (A <- "read {item}"); }\n return all;\n}\n',
    "python": "def main(items: list[str]) -> int:\n    n = 0\n    for item in items:\n"
    "        n = n + len(item)\n    return n\n",
}


class _Line:
    """The line to the runtime and back, one message after the other."""

    def __init__(self, reading: BinaryIO, writing: BinaryIO) -> None:
        self._reading, self._writing = reading, writing

    def receive(self) -> Any:  # noqa: ANN401
        head = self._reading.read(_HEAD.size)
        if len(head) < _HEAD.size:
            raise EOFError
        return pickle.loads(self._reading.read(*_HEAD.unpack(head)))  # noqa: S301

    def send(self, *message: object) -> None:
        self._writing.write(message_of(message))
        self._writing.flush()

    def ask(self, *message: object) -> Any:  # noqa: ANN401
        self.send(*message)
        return self.receive()


def message_of(content: object) -> bytes:
    """Return a message as it is sent: its length and its content."""
    body = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    return _HEAD.pack(len(body)) + body


class _Counts:
    """Asks the runtime once for each different request of a program: texts in it stand for any of
    their length, so most sends of a program come to few of them."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._known: dict[bytes, int] = {}

    def __call__(self, name: str, request: ModelRequest) -> int:
        said = tuple(_short(message) for message in request.messages)
        asked = name, replace(request, messages=()), said
        key = pickle.dumps(asked)
        if key not in self._known:
            self._known[key] = self._line.ask("count", *asked)
        return self._known[key]

    def clear(self) -> None:
        self._known.clear()


def _short(message: Message) -> tuple[bool, str, int]:
    """Whether an answer said it, a unit, and how often: what stands for a long text is the same
    over and over."""
    assert isinstance(message, (UserMessage, AssistantMessage)), message
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    is_answer = isinstance(message, AssistantMessage)
    for unit in ("x ", "x"):
        times = len(text) // len(unit)
        if times and text == unit * times:
            return is_answer, unit, times
    return is_answer, text, 1


@lru_cache(maxsize=_KEPT)
def _load_grant(stored: bytes) -> ProgramGrant:
    return pickle.loads(stored)  # noqa: S301


def main() -> None:
    """Inspect programs, one after the other, until the runtime hangs up."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 1_000))
    line = _Line(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what anything prints is no message
    counts = _Counts(line)
    token_counter.set(counts)
    _warm_up()
    niceness, *_ = line.receive()
    with suppress(OSError):
        os.nice(niceness)
    limit = _limits()
    line.send("ready")
    with suppress(EOFError):
        while True:
            kind, text, name, grant, most = line.receive()
            limit(_MOST_CPU_S)
            counts.clear()

            def read(used: str) -> str | None:
                return line.ask("read", used)

            try:
                answer = "looked", inspect_program(kind, text, name, _load_grant(grant), most, read)
            except MemoryError:
                os._exit(1)
            except Exception as bug:  # noqa: BLE001
                answer = "failed", f"{type(bug).__name__}: {bug}"
            limit(0.0)
            line.send(*answer)
            del answer


def _warm_up() -> None:
    """Loads every part that a program may need, and has the collector pass over it from now on."""
    grant = ProgramGrant(
        Money(1), ProgramRights(), {}, frozenset(), AgentTerms({}, {}), languages=tuple(_SAMPLES)
    )
    for language, text in _SAMPLES.items():
        inspect_program(AdmissionRequest.ADMIT, text, language, grant, MOST_STEPS)
        name = "program.vega" if language == "vega" else "program.py"
        for kind in (AdmissionRequest.COST, AdmissionRequest.EXPLAIN, AdmissionRequest.RUN):
            inspect_program(kind, text, name, grant, MOST_STEPS)
    inspect_program(
        AdmissionRequest.CHECK, "let x = ;\nlet y = z;", "program.vega", grant, MOST_STEPS
    )
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _limits() -> Callable[[float], None]:
    """Sets the memory once; gives what sets the CPU time of a program, 0 for none."""
    try:
        import resource
    except ImportError:  # Windows, where only steps bound it
        return lambda _: None
    size = _size()
    if size:
        most = size + _MOST_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    return _set_timer


def _set_timer(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _size() -> int:
    """Return the size of our address space, or 0 where nobody tells."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123
            return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    main()
