"""The local host: the gate's do-half, and the runtime people use (host).

Each part is loaded when it is first used: who only checks a program needs no runtime.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.runtime.agents import Agent
    from vegakit.runtime.asking import run
    from vegakit.runtime.asks import Ask
    from vegakit.runtime.authored import Permit, RunProgram, run_program
    from vegakit.runtime.clock import SteadyClock
    from vegakit.runtime.compiled import (
        ProgramRefused,
        VegaFunction,
        VegaProgram,
        arguments,
        deploy,
        load,
        python_value,
    )
    from vegakit.runtime.compiled.python import (
        Failed,
        Loading,
        Max,
        PythonProgram,
        bridge_at,
        code_run_by,
        parallel,
        program,
        session,
        spawn,
        vega,
    )
    from vegakit.runtime.composing import parts_from
    from vegakit.runtime.gate import Account, Gate, ModelCall
    from vegakit.runtime.journaling import Journaled
    from vegakit.runtime.lanes import Lane, LaneRules
    from vegakit.runtime.oversight import (
        Oversight,
        Permitting,
        Question,
        how_to_answer,
        rendered_question,
    )
    from vegakit.runtime.patterns import map_all, race, retry_until
    from vegakit.runtime.processes import (
        Child,
        Context,
        Driver,
        Health,
        Kind,
        LocalHost,
        LogEntry,
        Perform,
        Performing,
        Process,
        ProcessView,
        Recording,
        Reducer,
        Registry,
        State,
        Supervisor,
    )
    from vegakit.runtime.replies import (
        Reply,
        StreamEvent,
        TextChunk,
        ToolCalled,
        ToolReturned,
        TurnEnded,
    )
    from vegakit.runtime.runtime import Runtime
    from vegakit.runtime.sources import Looked, Source, built_at, look_at, root_of
    from vegakit.runtime.viewing import BlockingRemote, Killed, Remote, RuntimeView, connect

_HOMES = {
    "agents": ("Agent",),
    "asking": ("run",),
    "asks": ("Ask",),
    "authored": ("Permit", "RunProgram", "run_program"),
    "clock": ("SteadyClock",),
    "compiled": (
        "ProgramRefused",
        "VegaFunction",
        "VegaProgram",
        "arguments",
        "deploy",
        "load",
        "python_value",
    ),
    "compiled.python": (
        "Failed",
        "Loading",
        "Max",
        "PythonProgram",
        "bridge_at",
        "code_run_by",
        "parallel",
        "program",
        "session",
        "spawn",
        "vega",
    ),
    "composing": ("parts_from",),
    "gate": (
        "Account",
        "Gate",
        "ModelCall",
    ),
    "journaling": ("Journaled",),
    "lanes": (
        "Lane",
        "LaneRules",
    ),
    "oversight": (
        "Oversight",
        "Permitting",
        "Question",
        "how_to_answer",
        "rendered_question",
    ),
    "patterns": (
        "map_all",
        "race",
        "retry_until",
    ),
    "processes": (
        "Child",
        "Context",
        "Driver",
        "Health",
        "Kind",
        "LocalHost",
        "LogEntry",
        "Perform",
        "Performing",
        "Process",
        "ProcessView",
        "Recording",
        "Reducer",
        "Registry",
        "State",
        "Supervisor",
    ),
    "replies": (
        "Reply",
        "StreamEvent",
        "TextChunk",
        "ToolCalled",
        "ToolReturned",
        "TurnEnded",
    ),
    "runtime": ("Runtime",),
    "sources": (
        "Looked",
        "Source",
        "built_at",
        "look_at",
        "root_of",
    ),
    "viewing": (
        "BlockingRemote",
        "Killed",
        "Remote",
        "RuntimeView",
        "connect",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Account",
    "Agent",
    "Ask",
    "BlockingRemote",
    "Child",
    "Context",
    "Driver",
    "Failed",
    "Gate",
    "Health",
    "Journaled",
    "Killed",
    "Kind",
    "Lane",
    "LaneRules",
    "Loading",
    "LocalHost",
    "LogEntry",
    "Looked",
    "Max",
    "ModelCall",
    "Oversight",
    "Perform",
    "Performing",
    "Permit",
    "Permitting",
    "Process",
    "ProcessView",
    "ProgramRefused",
    "PythonProgram",
    "Question",
    "Recording",
    "Reducer",
    "Registry",
    "Remote",
    "Reply",
    "RunProgram",
    "Runtime",
    "RuntimeView",
    "Source",
    "State",
    "SteadyClock",
    "StreamEvent",
    "Supervisor",
    "TextChunk",
    "ToolCalled",
    "ToolReturned",
    "TurnEnded",
    "VegaFunction",
    "VegaProgram",
    "arguments",
    "bridge_at",
    "built_at",
    "code_run_by",
    "connect",
    "deploy",
    "how_to_answer",
    "load",
    "look_at",
    "map_all",
    "parallel",
    "parts_from",
    "program",
    "python_value",
    "race",
    "rendered_question",
    "retry_until",
    "root_of",
    "run",
    "run_program",
    "session",
    "spawn",
    "vega",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(__import__(f"vegakit.runtime.{home}", fromlist=[name]), name)
    return value
