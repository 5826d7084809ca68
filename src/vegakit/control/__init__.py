"""Operations on a running system: one table, its records, and the client of a socket (host).

Each part is loaded when it is first used: the records need no event loop, and the client of a
socket needs no program machine.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.control.client import (
        BlockingControlClient as BlockingControlClient,
        ControlClient as ControlClient,
        connect as connect,
    )
    from vegakit.control.messages import (
        CheckReply as CheckReply,
        CostLine as CostLine,
        CostReply as CostReply,
        ExplainReply as ExplainReply,
        FlowReply as FlowReply,
        Health as Health,
        KillResult as KillResult,
        Language as Language,
        LogEntry as LogEntry,
        ProcessKind as ProcessKind,
        ProcessStatus as ProcessStatus,
        ProcessView as ProcessView,
        ProgramRequest as ProgramRequest,
        RunReply as RunReply,
        RuntimeView as RuntimeView,
        UnboundedLine as UnboundedLine,
        is_within as is_within,
    )
    from vegakit.control.operations import (
        ALL_RIGHTS as ALL_RIGHTS,
        OPERATIONS as OPERATIONS,
        Operation as Operation,
        ReplyShape as ReplyShape,
        Right as Right,
        offered_by as offered_by,
        values as values,
    )
    from vegakit.control.process_views import (
        HostFacts as HostFacts,
        KillPlan as KillPlan,
        plan_kill as plan_kill,
        resolve as resolve,
        views_of as views_of,
    )
    from vegakit.control.questions import (
        Question as Question,
        answer_command as answer_command,
        answer_from as answer_from,
        question_of as question_of,
        refusal_text as refusal_text,
        render_question as render_question,
        short_id as short_id,
    )
    from vegakit.control.sockets import (
        decode_request as decode_request,
        encode_reply as encode_reply,
        is_mine as is_mine,
        open_socket as open_socket,
    )


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "client": "BlockingControlClient ControlClient connect",
        "messages": (
            "CheckReply CostLine CostReply ExplainReply FlowReply Health KillResult Language "
            "LogEntry ProcessKind ProcessStatus ProcessView ProgramRequest RunReply RuntimeView "
            "UnboundedLine is_within"
        ),
        "operations": "ALL_RIGHTS OPERATIONS Operation ReplyShape Right offered_by values",
        "process_views": "HostFacts KillPlan plan_kill resolve views_of",
        "questions": (
            "Question answer_command answer_from question_of refusal_text render_question short_id"
        ),
        "sockets": "decode_request encode_reply is_mine open_socket",
    },
)
