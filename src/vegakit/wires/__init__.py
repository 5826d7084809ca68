"""The protocols of providers as codecs: a request to bytes, bytes and events to our records (pure).

    ModelRequest ──encode──▶ bytes … bytes ──decode / reader──▶ ModelReply, chunks

One module a format, or two where it is long. Each is used from both ends: `providers` asks with it,
the test provider answers with it. Nothing here opens a socket, reads a clock or knows a key. A
codec is loaded when its name is first used, since a program speaks to few of them.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.wires.anthropic import (
        ANTHROPIC as ANTHROPIC,
        ANTHROPIC_SERVER as ANTHROPIC_SERVER,
    )
    from vegakit.wires.aws import (
        AwsKeys as AwsKeys,
        SignedRequest as SignedRequest,
        signed_headers as signed_headers,
    )
    from vegakit.wires.bedrock import (
        BEDROCK as BEDROCK,
    )
    from vegakit.wires.bedrock_server import (
        BEDROCK_SERVER as BEDROCK_SERVER,
    )
    from vegakit.wires.gemini import (
        GEMINI as GEMINI,
        VERTEX as VERTEX,
    )
    from vegakit.wires.gemini_server import (
        GEMINI_SERVER as GEMINI_SERVER,
    )
    from vegakit.wires.ollama import (
        OLLAMA as OLLAMA,
    )
    from vegakit.wires.ollama_server import (
        OLLAMA_SERVER as OLLAMA_SERVER,
    )
    from vegakit.wires.openai_chat import (
        CHAT as CHAT,
    )
    from vegakit.wires.openai_responses import (
        RESPONSES as RESPONSES,
    )
    from vegakit.wires.openai_serving import (
        CHAT_SERVER as CHAT_SERVER,
        RESPONSES_SERVER as RESPONSES_SERVER,
    )
    from vegakit.wires.serving import (
        ServedCall as ServedCall,
        ServedReply as ServedReply,
        WireServer as WireServer,
    )
    from vegakit.wires.sse import EventDecoder as EventDecoder
    from vegakit.wires.wire import (
        UNREADABLE as UNREADABLE,
        AnswerReader as AnswerReader,
        AskForm as AskForm,
        EffortForm as EffortForm,
        Header as Header,
        ModelFeatures as ModelFeatures,
        UnfinishedAnswerError as UnfinishedAnswerError,
        Wire as Wire,
        WireFailure as WireFailure,
        bounded_arguments as bounded_arguments,
        output_tool as output_tool,
        read_arguments as read_arguments,
        with_fields as with_fields,
    )

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "anthropic": "ANTHROPIC ANTHROPIC_SERVER",
        "aws": "AwsKeys SignedRequest signed_headers",
        "bedrock": "BEDROCK",
        "bedrock_server": "BEDROCK_SERVER",
        "gemini": "GEMINI VERTEX",
        "gemini_server": "GEMINI_SERVER",
        "ollama": "OLLAMA",
        "ollama_server": "OLLAMA_SERVER",
        "openai_chat": "CHAT",
        "openai_responses": "RESPONSES",
        "openai_serving": "CHAT_SERVER RESPONSES_SERVER",
        "serving": "ServedCall ServedReply WireServer",
        "sse": "EventDecoder",
        "wire": (
            "AnswerReader AskForm EffortForm Header ModelFeatures UNREADABLE "
            "UnfinishedAnswerError Wire WireFailure "
            "bounded_arguments output_tool read_arguments with_fields"
        ),
    },
)
