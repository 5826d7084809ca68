"""A whole program as one machine: processes, mailboxes, supervisors, wallets, turns (pure)."""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.program.admission import (
        AT_MOST as AT_MOST,
        LANGUAGES as LANGUAGES,
        MOST_BYTES as MOST_BYTES,
        MOST_LINKS as MOST_LINKS,
        TYPICAL as TYPICAL,
        AdmissionRequest as AdmissionRequest,
        AdmittedProgram as AdmittedProgram,
        AgentTerms as AgentTerms,
        Inspection as Inspection,
        ProgramGrant as ProgramGrant,
        ProgramRights as ProgramRights,
        RemoteTokenCount as RemoteTokenCount,
        admit as admit,
        inspect_program as inspect_program,
        missing_rights as missing_rights,
        over_remaining_budget as over_remaining_budget,
        token_counter as token_counter,
        too_complex_inspection as too_complex_inspection,
    )
    from vegakit.program.bodies import (
        AgentBody as AgentBody,
        Author as Author,
        Body as Body,
        Code as Code,
        CoroutineBody as CoroutineBody,
        FiberBody as FiberBody,
        ModelChoice as ModelChoice,
        PipelineBody as PipelineBody,
        ReducerBody as ReducerBody,
        StandInBody as StandInBody,
        restore as restore,
    )
    from vegakit.program.core import NOW as NOW, time_text as time_text
    from vegakit.program.machine import Machine as Machine
    from vegakit.program.messages import (
        AgentReply as AgentReply,
        Down as Down,
        MessageFailed as MessageFailed,
        Outcome as Outcome,
        ProcessMessage as ProcessMessage,
        Prompt as Prompt,
        ResultMessage as ResultMessage,
        Returned as Returned,
        problem_of as problem_of,
    )
    from vegakit.program.protocol import (
        Action as Action,
        Answer as Answer,
        AskOnce as AskOnce,
        AskPerson as AskPerson,
        AskProcess as AskProcess,
        BreakerClosed as BreakerClosed,
        BreakerOpened as BreakerOpened,
        CallQueued as CallQueued,
        CallRetried as CallRetried,
        CancelAsk as CancelAsk,
        ChildSpec as ChildSpec,
        CostAlert as CostAlert,
        DeferReply as DeferReply,
        Demonitor as Demonitor,
        Event as Event,
        Exit as Exit,
        GroupSpec as GroupSpec,
        HistoryCompacted as HistoryCompacted,
        Link as Link,
        MachineEnded as MachineEnded,
        Monitor as Monitor,
        Monitored as Monitored,
        News as News,
        OverlapReport as OverlapReport,
        Post as Post,
        Printed as Printed,
        ProcessExited as ProcessExited,
        ProcessRestarted as ProcessRestarted,
        ProcessSpawned as ProcessSpawned,
        ProcessSpec as ProcessSpec,
        ProcessStuck as ProcessStuck,
        ProgramAdmitted as ProgramAdmitted,
        ProgramQuote as ProgramQuote,
        ReducerAction as ReducerAction,
        Remember as Remember,
        Respond as Respond,
        SendAfter as SendAfter,
        SendExitSignal as SendExitSignal,
        ShutDown as ShutDown,
        Spawn as Spawn,
        SpawnChild as SpawnChild,
        Spawned as Spawned,
        SpawnRefused as SpawnRefused,
        Tell as Tell,
        TerminateProcess as TerminateProcess,
        ToolBegan as ToolBegan,
        ToolEnded as ToolEnded,
        TraceNote as TraceNote,
        TraceSpanEnded as TraceSpanEnded,
        Unlink as Unlink,
        WastedCost as WastedCost,
    )
    from vegakit.program.refusals import (
        RefusalReason as RefusalReason,
        RefusedProgram as RefusedProgram,
        refused as refused,
    )
    from vegakit.program.spawn import backoff_of as backoff_of
    from vegakit.program.state import (
        DEFAULT_WINDOW as DEFAULT_WINDOW,
        AuthoredProgram as AuthoredProgram,
        Bounds as Bounds,
        InFlightEffect as InFlightEffect,
        ProcessPhase as ProcessPhase,
        ProcessRecord as ProcessRecord,
        Program as Program,
        Supervision as Supervision,
        Wallet as Wallet,
        child_path as child_path,
        origin_of as origin_of,
    )
    from vegakit.program.tool_calls import MOST_TRIES as MOST_TRIES, source_in as source_in

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "admission": (
            "AT_MOST AdmissionRequest AdmittedProgram AgentTerms Inspection LANGUAGES MOST_BYTES "
            "MOST_LINKS ProgramGrant ProgramRights RemoteTokenCount TYPICAL admit inspect_program "
            "missing_rights over_remaining_budget token_counter too_complex_inspection"
        ),
        "bodies": (
            "AgentBody Author Body Code CoroutineBody FiberBody ModelChoice PipelineBody "
            "ReducerBody StandInBody restore"
        ),
        "core": "NOW time_text",
        "machine": "Machine",
        "messages": (
            "AgentReply Down MessageFailed Outcome ProcessMessage Prompt ResultMessage Returned "
            "problem_of"
        ),
        "protocol": (
            "Action Answer AskOnce AskPerson AskProcess BreakerClosed BreakerOpened CallQueued "
            "CallRetried "
            "CancelAsk ChildSpec CostAlert DeferReply Demonitor Event Exit GroupSpec "
            "HistoryCompacted Link MachineEnded Monitor Monitored News OverlapReport Post Printed "
            "ProcessExited ProcessRestarted ProcessSpawned ProcessSpec ProcessStuck "
            "ProgramAdmitted ProgramQuote ReducerAction "
            "Remember Respond SendAfter SendExitSignal ShutDown Spawn SpawnChild SpawnRefused "
            "Spawned Tell TerminateProcess ToolBegan ToolEnded TraceNote TraceSpanEnded Unlink "
            "WastedCost"
        ),
        "refusals": "RefusalReason RefusedProgram refused",
        "spawn": "backoff_of",
        "state": (
            "AuthoredProgram Bounds DEFAULT_WINDOW InFlightEffect ProcessPhase ProcessRecord "
            "Program Supervision Wallet child_path origin_of"
        ),
        "tool_calls": "MOST_TRIES source_in",
    },
)
