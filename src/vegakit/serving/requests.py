"""What clients may ask for, field by field: anything else is refused. Schemas are made from these.

No field widens what the server was started with; `budget` of a run only narrows it.
"""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, json

__all__ = [
    "CardRequest",
    "InterruptsRequest",
    "KillRequest",
    "ProgramRequest",
    "PsRequest",
    "Request",
    "RunRequest",
    "schema_of",
]


class ProgramRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Either `source` or `path`."""

    source: Annotated[str, Meta(description="the text of a program")] = ""
    path: Annotated[
        str, Meta(description="or its file, from the folder of the project", max_length=1_000)
    ] = ""
    language: Annotated[
        Literal["vega", "python"], Meta(description="of `source`; a file says it by its name")
    ] = "vega"


class RunRequest(ProgramRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    arguments: Annotated[
        tuple[Any, ...], Meta(description='of its main, as JSON; money is text like "$1.50"')
    ] = ()
    budget: Annotated[
        str, Meta(description="what this run may spend at most, such as $0.50", max_length=40)
    ] = ""


class PsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    at: Annotated[str, Meta(description="another runtime of this user, if that is granted")] = ""


class InterruptsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class KillRequest(Struct, frozen=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(description="as ps shows it", min_length=1, max_length=1_000)]
    at: Annotated[str, Meta(description="another runtime of this user, if that is granted")] = ""


class CardRequest(Struct, frozen=True, forbid_unknown_fields=True):
    language: Annotated[Literal["vega", "python"], Meta(description="to write programs in")] = (
        "vega"
    )


Request: TypeAlias = (
    ProgramRequest | RunRequest | PsRequest | KillRequest | CardRequest | InterruptsRequest
)


def schema_of(kind: type[Request]) -> dict[str, Any]:
    _, parts = json.schema_components([kind])
    return parts[kind.__name__]
