"""Nodes as native code, by LLVM: one row at a time, or all rows of some columns in one call (host).

It is the third leg beside generated Python and the interpreter, and shares arithmetic with neither.
What is linked sees no symbol of this process, so code that would need a function from outside is
refused when it is linked, instead of jumping to nowhere when it runs.

A single row is packed, handed over by ctypes and unpacked, which costs more than most nodes do; in
columns it costs nothing, so that is where native code pays most. `docs/benchmarks.md` has
the figures. `HotPath` makes native code of a node when it is called often:

    python ── `native_after` calls ──▶ compiled beside them ──▶ native, and both now and then
       ▲                                                              │
       └── for good ◀── it is not faster, or an outcome differs ──────┘
"""

import ctypes
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from statistics import median
from struct import Struct as Layout
from threading import Lock, Thread
from time import thread_time_ns
from typing import Any, cast

from vegakit.contracts import (
    BooleanType,
    DecimalType,
    EnumType,
    NativeSource,
    NodeOutcome,
    NodeProgram,
    NodeStatus,
    NodeType,
    NotNative,
    RecordType,
    Value,
    llvm_source,
    optimised,
    show_value,
)
from vegakit.errors import SettingsError, UserError
from vegakit.vesper.node_paths import NodePath, PythonPath

NATIVE_AFTER = 4_000
"""After so many calls a node has saved what compiling it costs: docs/benchmarks.md."""
_SAMPLED, _PAIRS = 64, 32
"""Every so many calls both paths run, and after so many of those it is decided which is faster."""
_BATCH = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_ROW = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p)
_LOW = (1 << 64) - 1
_NAMES = count()
_LINKING = Lock()
"""The linker is one for the process, and two threads at once would spoil its tables."""


def _llvm() -> Any:  # noqa: ANN401  (llvmlite has no types)
    try:
        import llvmlite.binding as llvm  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise SettingsError(
            "native code is made by llvmlite, which is not installed; "
            "type: pip install 'vegakit[native]'"
        ) from error
    return cast("Any", llvm)


@cache
def _linker() -> tuple[Any, Any]:
    """Return the machine that code is made for, and the linker of this process."""
    llvm = _llvm()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(opt=2, jit=True)
    return machine, llvm.create_lljit_compiler(target.create_target_machine(opt=2, jit=True))


def link(text: str, *names: str) -> Any:  # noqa: ANN401
    """Return the addresses of some functions of LLVM assembly, by name; the code is in memory as
    long as what is returned. Raises `UserError` where a function from outside would be needed."""
    llvm = _llvm()
    with _LINKING:
        machine, linker = _linker()
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        module.verify()
        passes = llvm.create_pass_builder(
            machine, llvm.create_pipeline_tuning_options(speed_level=2)
        )
        passes.getModulePassManager().run(module, passes)
        builder = llvm.JITLibraryBuilder().add_ir(module)
        for name in names:
            builder.export_symbol(name)
        try:
            return builder.link(linker, f"node{next(_NAMES)}")
        except RuntimeError as error:
            raise UserError(
                f"LLVM cannot link this node on this machine: {error}; use the path python"
            ) from error


class NativePath:
    """Native code, from a node or from assembly that was changed since."""

    def __init__(
        self, node: NodeProgram, source: NativeSource | None = None, *, optimise: bool = True
    ) -> None:
        self.node = node
        self.source = source or llvm_source(optimised(node) if optimise else node)
        self._library = link(self.source.text, "batch", "row")
        self._batch = _BATCH(self._library["batch"])
        self.enter: Callable[[bytes, int], int] = _ROW(self._library["row"])
        self.pack = _packer(self.source)
        self._unpack = Layout("=" + "".join(_code(kind) for _, kind in self.source.outputs))
        # A run takes one and puts it back, so that threads do not write into each other's.
        self._buffers = list[ctypes.Array[ctypes.c_char]]()

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome:
        """Run the node; raises `NodeValueError` for inputs that do not fit their types."""
        return self.run_values(self.node.read_inputs(inputs))

    def run_values(self, values: Mapping[str, Value]) -> NodeOutcome:
        """Run the node over inputs that were read."""
        try:
            buffer = self._buffers.pop()
        except IndexError:
            buffer = ctypes.create_string_buffer(self._unpack.size)
        status = self.enter(self.pack(values), ctypes.addressof(buffer))
        if status:
            self._buffers.append(buffer)
            return self.source.endings[status - 1]
        words = iter(self._unpack.unpack(buffer))
        self._buffers.append(buffer)
        return self._outcome(self._numbers(words))

    def _numbers(self, words: Iterator[int]) -> Iterator[int]:
        for _, kind in self.source.outputs:
            low = next(words)
            yield next(words) << 64 | low if isinstance(kind, DecimalType) else low

    def run_rows(self, rows: Sequence[Mapping[str, Value]]) -> list[NodeOutcome]:
        """Run the node over many inputs that were read, in one call."""
        statuses, found = self.run_columns(self.columns(rows), len(rows))
        outputs = [
            values_of(kind, column)
            for column, (_, kind) in zip(found, self.source.outputs, strict=True)
        ]
        return [
            self.source.endings[status - 1] if status else self._outcome(iter(numbers))
            for status, *numbers in zip(statuses, *outputs, strict=True)
        ]

    def columns(self, rows: Sequence[Mapping[str, Value]]) -> list["array[int]"]:
        """Return the columns of inputs that were read."""
        places = {text: n for n, text in enumerate(self.source.texts)}
        made = list["array[int]"]()
        for path, kind in self.source.inputs:
            found: Iterable[Any] = (_at(row, path) for row in rows)
            if isinstance(kind, EnumType):
                found = (places[text] for text in found)
            made.append(column_of(kind, found))
        return made

    def run_columns(
        self, columns: Sequence["array[int]"], rows: int
    ) -> tuple["array[int]", list["array[int]"]]:
        """Run all rows of some columns; returns a status for each row and the columns of outputs.
        A status is 0 for outputs, and otherwise the number of one of `source.endings`, from 1."""
        wanted = [rows * _words(kind) for _, kind in self.source.inputs]
        # Native code would read whatever lies behind a column that is too short.
        if [len(each) for each in columns] != wanted or any(c.typecode != "q" for c in columns):
            raise UserError(
                f"{self.node.node_id} takes columns of {wanted} words for {rows} rows, and these "
                f"have {[len(each) for each in columns]}; make them with array('q', …), a decimal "
                "of two words"
            )
        statuses = array("i", bytes(4 * rows))
        found = [array("q", bytes(8 * rows * _words(kind))) for _, kind in self.source.outputs]
        self._batch(rows, _pointers(columns), _pointers(found), statuses.buffer_info()[0])
        return statuses, found

    def _outcome(self, numbers: Iterator[int]) -> NodeOutcome:
        outputs = {name: self._shown(kind, numbers) for name, kind in self.node.outputs}
        return NodeOutcome(NodeStatus.SUCCESS, outputs)

    def _shown(self, kind: NodeType, numbers: Iterator[int]) -> Any:  # noqa: ANN401
        if isinstance(kind, RecordType):
            return {name: self._shown(part, numbers) for name, part in kind.fields}
        value = next(numbers)
        if isinstance(kind, EnumType):
            return self.source.texts[value]
        return bool(value) if isinstance(kind, BooleanType) else show_value(kind, value)


class HotPath:
    """A node on generated Python until it is called often, and then as native code as long as that
    is faster. `start` runs what compiles, in a thread by default; `cpu_ns` is the clock by which
    the paths are compared, of this thread's work only, so that a busy machine changes nothing."""

    def __init__(
        self,
        node: NodeProgram,
        native_after: int = NATIVE_AFTER,
        *,
        make: Callable[[NodeProgram], NodePath] = NativePath,
        start: Callable[[Callable[[], None]], None] | None = None,
        cpu_ns: Callable[[], int] = thread_time_ns,
    ) -> None:
        self._node, self._native_after, self._make = node, native_after, make
        self._start, self._cpu_ns = start or _in_thread, cpu_ns
        self._python = PythonPath(node)
        self._native: NodePath | None = None
        self._times = list[tuple[int, int]]()
        self.calls = 0
        self.why_python = f"it was not called {native_after:,} times yet"
        """Why the node is not native now; empty while it is."""

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome:
        """Run the node; raises `NodeValueError` for inputs that do not fit their types."""
        self.calls += 1
        if self.calls == self._native_after:
            self.why_python = "it is being compiled"
            self._start(self._compile)
        native = self._native
        if native is None:
            return self._python.run(inputs)
        if self.calls % _SAMPLED:
            return native.run(inputs)
        return self._compared(native, inputs)

    def _compile(self) -> None:
        try:
            native = self._make(self._node)
        except (NotNative, SettingsError) as error:
            self.why_python = str(error)
        else:
            self.why_python = ""
            self._native = native

    def _compared(self, native: NodePath, inputs: Mapping[str, Any]) -> NodeOutcome:
        """Run both, by turns which comes first: the second finds what both need in the caches."""
        if self.calls // _SAMPLED % 2:
            wanted, python_ns = self._timed(self._python, inputs)
            found, native_ns = self._timed(native, inputs)
        else:
            found, native_ns = self._timed(native, inputs)
            wanted, python_ns = self._timed(self._python, inputs)
        if found != wanted:
            self._drop(f"native code gave {found} where Python gives {wanted}, for {inputs}")
        self._times.append((python_ns, native_ns))
        if len(self._times) == _PAIRS:
            medians = [median(each) for each in zip(*self._times, strict=True)]
            self._times.clear()
            if medians[1] > medians[0]:
                share = medians[1] / max(medians[0], 1)
                self._drop(f"native code takes {share:.1f} times as long as Python")
        return wanted

    def _timed(self, path: NodePath, inputs: Mapping[str, Any]) -> tuple[NodeOutcome, int]:
        # The second run counts. Python is run so seldom now that its first takes several times as
        # long, with all that it needs gone from the caches, and slow native code would be kept.
        outcome = path.run(inputs)
        began = self._cpu_ns()
        path.run(inputs)
        return outcome, self._cpu_ns() - began

    def _drop(self, why: str) -> None:
        self._native, self.why_python = None, why


def _in_thread(work: Callable[[], None]) -> None:
    # Nobody waits for it: calls stay on Python until it is done, and it ends with the process.
    Thread(target=work, name="vega-native", daemon=True).start()


def _at(values: Mapping[str, Value], path: str) -> Value:
    found: Any = values
    for name in path.split("."):
        found = found[name]
    return found


def _packer(source: NativeSource) -> Callable[[Mapping[str, Value]], bytes]:
    """Return what packs inputs that were read. It is compiled of their names: a loop over them
    would cost more than the node."""
    words = list[str]()
    for path, kind in source.inputs:
        place = "given" + "".join(f"[{name!r}]" for name in path.split("."))
        if isinstance(kind, DecimalType):
            words += [f"{place} & {_LOW}", f"{place} >> 64"]
        else:
            words.append(f"places[{place}]" if isinstance(kind, EnumType) else place)
    layout = Layout("=" + "".join(_code(kind) for _, kind in source.inputs))
    names = {"pack": layout.pack, "places": {text: n for n, text in enumerate(source.texts)}}
    # Names of inputs are checked when a node is read: letters, digits and underscores.
    return eval(f"lambda given: pack({', '.join(words)})", names)  # noqa: S307


def _code(kind: NodeType) -> str:
    return "Qq" if isinstance(kind, DecimalType) else "q"


def _words(kind: NodeType) -> int:
    return 2 if isinstance(kind, DecimalType) else 1


def column_of(kind: NodeType, values: Iterable[int]) -> "array[int]":
    """Return a column of numbers."""
    if not isinstance(kind, DecimalType):
        return array("q", values)
    made = array("q")
    made.frombytes(b"".join(value.to_bytes(16, "little", signed=True) for value in values))
    return made


def values_of(kind: NodeType, column: "array[int]") -> Sequence[int]:
    """Return the numbers of a column."""
    if not isinstance(kind, DecimalType):
        return column
    return [high << 64 | low & _LOW for low, high in zip(column[::2], column[1::2], strict=True)]


def _pointers(columns: Sequence["array[int]"]) -> "ctypes.Array[ctypes.c_void_p]":
    return (ctypes.c_void_p * len(columns))(*(column.buffer_info()[0] for column in columns))
