"""Sizes that Python types say are those of a program."""

from typing import Annotated

from pydantic import TypeAdapter

from vegakit.host.python_interop import type_in
from vegakit.sdk import MaxLen
from vegakit.value_types import INT, MapOf, Plain


def test_a_text_and_a_dict_keep_their_sizes() -> None:
    """As pydantic writes them in a schema."""
    text = TypeAdapter(Annotated[str, MaxLen(20)]).json_schema()
    counts = TypeAdapter(Annotated[dict[str, int], MaxLen(3)]).json_schema()
    assert type_in(text, "it") == Plain("str", 20)
    assert type_in(counts, "it") == MapOf(INT, 3)
