"""Values of programs and of Python: what goes in as an argument, and what comes out."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from vegakit.errors import ContractViolated
from vegakit.lang import Function, Problem, value_of
from vegakit.money import NANOS

__all__ = ["arguments", "python_value"]


def arguments(function: Function, given: Sequence[Any]) -> list[Any]:
    if len(given) != len(function.params):
        wanted = len(function.params)
        raise ContractViolated(f"{function.name} takes {wanted} arguments; got {len(given)}")
    made: list[Any] = []
    for number, (kind, value) in enumerate(zip(function.params, given, strict=True), 1):
        read = value_of(kind, _json(value))
        if isinstance(read, Problem):
            name = function.names[number - 1] if function.names else f"argument {number}"
            raise ContractViolated(f"{name} of {function.name}: {read}")
        made.append(read)
    return made


def _json(value: Any) -> Any:  # noqa: ANN401
    """Of pydantic models, dataclasses and the like, too."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value)


def python_value(value: Any) -> Any:  # noqa: ANN401
    """Money comes as a `Decimal` of dollars, a time as a `timedelta`, a file as a `Path`."""
    if isinstance(value, list):
        return [python_value(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    match fields.get("$"):
        case None:
            return {key: python_value(item) for key, item in fields.items()}
        case "money":
            return Decimal(fields["of"]) / NANOS
        case "duration":
            return timedelta(milliseconds=fields["of"])
        case "file":
            return Path(fields["of"])
        case "map":
            return {key: python_value(item) for key, item in fields["of"]}
        case _:
            return fields["of"]
