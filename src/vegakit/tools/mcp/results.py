"""What a tool of a server answered, as text: what is no text is named, and never fetched."""

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
)

from vegakit.errors import ToolFailed
from vegakit.policy import for_model, sanitise
from vegakit.records import canonical

__all__ = ["text_of"]

_MOST_BYTES = 60_000
"""Less than any result may have, so that the marks stay on it."""


def text_of(result: CallToolResult) -> str:
    """Between the marks of what is not to be trusted."""
    text = "\n".join(map(_block, result.content))
    if not text and result.structured_content is not None:
        text = canonical(result.structured_content).decode()
    if result.is_error:
        told = for_model(sanitise(text, _MOST_BYTES)) if text else "and not why"
        raise ToolFailed(f"the server says that it failed: {told}")
    return for_model(sanitise(text, _MOST_BYTES))


def _block(block: ContentBlock) -> str:
    match block:
        case TextContent(text=text):
            return text
        case (
            ImageContent(mime_type=kind, data=content) | AudioContent(mime_type=kind, data=content)
        ):
            return f"[{kind}, {len(content) * 3 // 4:,} bytes, not shown]"
        case EmbeddedResource(resource=BlobResourceContents(uri=uri, blob=content)):
            return f"[{uri}, {len(content) * 3 // 4:,} bytes, not shown]"
        case EmbeddedResource(resource=resource):
            return getattr(resource, "text", "")
        case _:
            return f"[{block.uri}, not fetched]"
