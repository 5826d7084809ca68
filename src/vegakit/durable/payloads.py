"""Our records as Temporal keeps them: JSON that people can read in its histories."""

from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
)

from vegakit.records import from_json, to_json

__all__ = ["RECORDS", "RecordConverter"]

_JSON = "json/plain"


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
