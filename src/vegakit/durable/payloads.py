"""Our records as Temporal keeps them: JSON that people can read in its histories.

Workflows run in many threads, and msgspec crashes the process when two of them look into a kind of
record for the first time at once. So all kinds that are read in a workflow are looked into here.
"""

from typing import Any

import msgspec
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
)

from vegakit.agent import ToolOutcome
from vegakit.conversation import Conversation, ModelReply
from vegakit.durable.messages import Command, Given, Launch, Performed, Reply, Work
from vegakit.policy import Interrupts
from vegakit.program import Program
from vegakit.records import from_json, to_json

__all__ = ["RECORDS", "RecordConverter", "why_too_large"]

_JSON = "json/plain"
_LARGEST_BYTES = 1_800_000
"""Temporal takes two million, and would try what is larger again for ever."""
_READ = (
    *(Launch, Command, Given, Performed, Work, Reply),
    *(Program, Interrupts, Conversation, ModelReply, ToolOutcome),
)
_LOOKED_INTO = [msgspec.json.Decoder[Any](kind) for kind in _READ]


class _Records(EncodingPayloadConverter):
    @property
    def encoding(self) -> str:
        return _JSON

    def to_payload(self, value: Any) -> Payload | None:  # noqa: ANN401
        return Payload(metadata={"encoding": _JSON.encode()}, data=to_json(value))

    def from_payload(self, payload: Payload, type_hint: type[Any] | None = None) -> Any:  # noqa: ANN401
        return from_json(type_hint or object, payload.data)


class RecordConverter(CompositePayloadConverter):
    """As Temporal's own, but that its JSON is written and checked by ours."""

    def __init__(self) -> None:
        usual = DefaultPayloadConverter.default_encoding_payload_converters
        kept = (converter for converter in usual if converter.encoding != _JSON)
        super().__init__(*kept, _Records())


RECORDS = DataConverter(payload_converter_class=RecordConverter)


def why_too_large(what: str, record: object, remedy: str) -> str:
    """Empty if Temporal takes it."""
    size = len(to_json(record))
    if size <= _LARGEST_BYTES:
        return ""
    return f"{what} has {size:,} bytes, and Temporal keeps at most {_LARGEST_BYTES:,}; {remedy}"
