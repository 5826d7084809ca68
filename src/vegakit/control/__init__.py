"""Operations on a running system, as records, and the client of its socket (host).

Each part is loaded when it is first used: the records need no event loop.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.control.client import (
        BlockingControlClient,
        ControlClient,
        connect,
        is_mine,
        open_socket,
    )
    from vegakit.control.process_views import (
        Health,
        HostFacts,
        ProcessKind,
        ProcessStatus,
        ProcessView,
        views_of,
    )
    from vegakit.control.protocol import (
        CONTROL_VERSION,
        ControlRequest,
        KillResult,
        LogEntry,
        Question,
        RuntimeView,
        answer_command,
        answer_from,
        encode_reply,
        is_within,
        question_of,
        refusal_text,
        render_question,
        short_id,
    )


__all__ = [
    "CONTROL_VERSION",
    "BlockingControlClient",
    "ControlClient",
    "ControlRequest",
    "Health",
    "HostFacts",
    "KillResult",
    "LogEntry",
    "ProcessKind",
    "ProcessStatus",
    "ProcessView",
    "Question",
    "RuntimeView",
    "answer_command",
    "answer_from",
    "connect",
    "encode_reply",
    "is_mine",
    "is_within",
    "open_socket",
    "question_of",
    "refusal_text",
    "render_question",
    "short_id",
    "views_of",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "client": (
            "BlockingControlClient",
            "ControlClient",
            "connect",
            "is_mine",
            "open_socket",
        ),
        "process_views": (
            "Health",
            "HostFacts",
            "ProcessKind",
            "ProcessStatus",
            "ProcessView",
            "views_of",
        ),
        "protocol": (
            "CONTROL_VERSION",
            "ControlRequest",
            "KillResult",
            "LogEntry",
            "Question",
            "RuntimeView",
            "answer_command",
            "answer_from",
            "encode_reply",
            "is_within",
            "question_of",
            "refusal_text",
            "render_question",
            "short_id",
        ),
    },
)
