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
