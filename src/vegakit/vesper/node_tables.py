"""The tables of a node file: its keys, what stands in them, and the schema that is published.

A table says which keys there are and of what shape; `node_files` says what they mean together. A
key that is not here is refused, with the nearest one that is.
"""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from vegakit.contracts import EFFECTS, HANDLED, OPERATIONS

TypeText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500, examples=["decimal<2>"])]
ExpressionText: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=4_000, examples=["amount > 0"])
]
Expressions: TypeAlias = Annotated[tuple[ExpressionText, ...], Meta(max_length=64)]
Names: TypeAlias = Annotated[tuple[str, ...], Meta(max_length=64)]


class _NodeTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    pass


class MetadataTable(_NodeTable, frozen=True, kw_only=True):
    """The author of a node, its date, the nodes it depends on, and words to find it by."""

    author: str = ""
    created: Annotated[str, Meta(examples=["2026-01-31"])] = ""
    dependencies: Annotated[Names, Meta(examples=[["rate_card_v1"]])] = ()
    tags: Names = ()


class RecordTable(_NodeTable, frozen=True, kw_only=True):
    """A record: its fields, and what holds of them. Constraints name the fields."""

    fields: Annotated[dict[str, TypeText], Meta(min_length=1, max_length=64)]
    constraints: Expressions = ()


class StateTable(_NodeTable, frozen=True, kw_only=True):
    """Records that a node reads and writes by key: the rows of a table, its fields and what holds
    of them. Without `table` it has the name of the state."""

    key: Annotated[str, Meta(examples=["id"])]
    fields: Annotated[dict[str, TypeText], Meta(min_length=2, max_length=64)]
    constraints: Expressions = ()
    table: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,62}$(?!\\n)")] | UnsetType = UNSET


class IdempotentTable(_NodeTable, frozen=True, kw_only=True):
    """The input that names a request: with the same one a node is carried out once."""

    key: Annotated[str, Meta(examples=["request_id"])]


class PerformanceTable(_NodeTable, frozen=True, kw_only=True):
    """The time and memory of a run. The timeout ends a run with effects; the others are for
    those who watch nodes."""

    expected_latency_ms: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    memory_limit_mb: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    timeout_seconds: Annotated[int, Meta(ge=1, le=3_600)] | UnsetType = UNSET


class InputTable(_NodeTable, frozen=True, kw_only=True):
    """An input, and what holds of it. With a default it may be left out."""

    type: TypeText
    constraints: Expressions = ()
    required: bool = True
    default: str | int | bool | list[Any] | dict[str, Any] | UnsetType = UNSET


class ErrorTable(_NodeTable, frozen=True, kw_only=True):
    """The codes of the errors that a node ends with."""

    error_code: Annotated[str, Meta(examples=["enum[insufficient_funds]"])]
    message: TypeText = "string"


class OutputsTable(_NodeTable, frozen=True, kw_only=True):
    """The results of a node: outputs by name and type, or an error."""

    success: Annotated[dict[str, TypeText], Meta(min_length=1, max_length=64)]
    error: ErrorTable | UnsetType = UNSET


class ContractsTable(_NodeTable, frozen=True, kw_only=True):
    """Preconditions hold of inputs, postconditions of inputs and outputs, invariants of inputs
    before and after."""

    preconditions: Expressions = ()
    postconditions: Expressions = ()
    invariants: Expressions = ()


class StepTable(_NodeTable, frozen=True, kw_only=True):
    """A step. Its guards are checked first; `error_handling` gives codes for what goes wrong."""

    step: Annotated[str, Meta(examples=["subtotal"])]
    operation: Annotated[str, Meta(examples=["compute"])]
    type: TypeText | UnsetType = UNSET
    parameters: Annotated[dict[str, str | int | bool], Meta(max_length=8)] = {}
    guards: Expressions = ()
    error_handling: Annotated[dict[str, str], Meta(max_length=8)] = {}


class SecurityTable(_NodeTable, frozen=True, kw_only=True):
    """The capabilities that a node needs and those that it must never have; what is sensitive, as
    names of inputs, outputs and fields of state, or all of it; and what the audit keeps."""

    capabilities_required: Names = ()
    denied_capabilities: Names = ()
    sensitive_data: bool | Names = False
    audit_level: Literal["none", "basic", "detailed"] = "none"


class NodeTable(_NodeTable, frozen=True, kw_only=True):
    """A node."""

    node_id: Annotated[
        str, Meta(pattern=r"^[a-z][a-z0-9_]{0,80}_v[1-9][0-9]{0,5}$(?!\n)", examples=["pay_v1"])
    ]
    type: Annotated[str, Meta(min_length=1, max_length=100, examples=["business_rule"])]
    intent: Annotated[str, Meta(min_length=1, max_length=2_000, examples=["What it is for."])]
    metadata: MetadataTable = MetadataTable()
    types: Annotated[dict[str, RecordTable], Meta(max_length=64)] = {}
    state: Annotated[dict[str, StateTable], Meta(max_length=16)] = {}
    inputs: Annotated[dict[str, InputTable], Meta(max_length=64)]
    outputs: OutputsTable
    contracts: ContractsTable = ContractsTable()
    flow: Annotated[tuple[StepTable, ...], Meta(min_length=1, max_length=200)]
    idempotent: IdempotentTable | UnsetType = UNSET
    performance: PerformanceTable = PerformanceTable()
    security: SecurityTable = SecurityTable()


def node_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a node, for editors and for other programs."""
    made = msgspec.json.schema(NodeTable)
    step = made["$defs"]["StepTable"]["properties"]
    step["operation"] = {**step["operation"], "enum": [*OPERATIONS, *EFFECTS]}
    step["error_handling"] = {**step["error_handling"], "propertyNames": {"enum": [*HANDLED]}}
    named = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "node.vsp"}
    return msgspec.json.decode(msgspec.json.encode(named | made))
