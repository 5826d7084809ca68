"""What users import: `Runtime`, agents, processes, programs in Python and in Vega (host).

Each part is loaded when it is first used: a command that only checks a program needs no runtime.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.control import Question
    from vegakit.host import (
        Agent,
        Child,
        Process,
        Reducer,
        Reply,
        RunProgram,
        StreamEvent,
        Supervisor,
        TextChunk,
        ToolCalled,
        ToolReturned,
        TurnEnded,
        run_program,
    )
    from vegakit.sdk.composition import runtime_arguments
    from vegakit.sdk.control_server import ControlServer
    from vegakit.sdk.patterns import map_all, race, retry_until
    from vegakit.sdk.programs import (
        Failed,
        LoadHook,
        Max,
        ProgramRefused,
        PythonProgram,
        VegaFunction,
        VegaProgram,
        code_run_by,
        interop_at,
        load,
        parallel,
        program,
        session,
        spawn,
        vega,
    )
    from vegakit.sdk.runtime import Ask, Runtime, run
    from vegakit.sdk.sources import CheckedSource, Source, check_source, load_bytecode, project_root


__all__ = [
    "Agent",
    "Ask",
    "CheckedSource",
    "Child",
    "ControlServer",
    "Failed",
    "LoadHook",
    "Max",
    "Process",
    "ProgramRefused",
    "PythonProgram",
    "Question",
    "Reducer",
    "Reply",
    "RunProgram",
    "Runtime",
    "Source",
    "StreamEvent",
    "Supervisor",
    "TextChunk",
    "ToolCalled",
    "ToolReturned",
    "TurnEnded",
    "VegaFunction",
    "VegaProgram",
    "check_source",
    "code_run_by",
    "interop_at",
    "load",
    "load_bytecode",
    "map_all",
    "parallel",
    "program",
    "project_root",
    "race",
    "retry_until",
    "run",
    "run_program",
    "runtime_arguments",
    "session",
    "spawn",
    "vega",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "vegakit.control": ("Question",),
        "vegakit.host": (
            "Agent",
            "Child",
            "Process",
            "Reducer",
            "Reply",
            "RunProgram",
            "StreamEvent",
            "Supervisor",
            "TextChunk",
            "ToolCalled",
            "ToolReturned",
            "TurnEnded",
            "run_program",
        ),
        "composition": ("runtime_arguments",),
        "control_server": ("ControlServer",),
        "patterns": (
            "map_all",
            "race",
            "retry_until",
        ),
        "programs": (
            "Failed",
            "LoadHook",
            "Max",
            "ProgramRefused",
            "PythonProgram",
            "VegaFunction",
            "VegaProgram",
            "code_run_by",
            "interop_at",
            "load",
            "parallel",
            "program",
            "session",
            "spawn",
            "vega",
        ),
        "runtime": (
            "Ask",
            "Runtime",
            "run",
        ),
        "sources": (
            "CheckedSource",
            "Source",
            "check_source",
            "load_bytecode",
            "project_root",
        ),
    },
)
