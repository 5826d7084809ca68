"""A Python type as the shape of an answer: its schema for the model, its check for what came back.

Models answer with objects, so a type that is not one (bool, a list, a union) is wrapped in
`{"result": …}` on the way out and unwrapped on the way in.
"""

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vegakit.conversation import OutputSpec
from vegakit.tools import problems_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["Output"]

T = TypeVar("T")


class Output(Generic[T]):
    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._adapter: TypeAdapter[Any] | None = None
        self._wrapped = False
        self.spec: OutputSpec | None = None
        if kind is not str:
            self._prepare()

    def _prepare(self) -> None:
        from pydantic import TypeAdapter

        adapter = TypeAdapter(self._kind)
        schema = adapter.json_schema()
        self._wrapped = schema.get("type") != "object"
        if self._wrapped:
            definitions = schema.pop("$defs", None)
            schema = {
                "type": "object",
                "properties": {"result": schema},
                "required": ["result"],
                "additionalProperties": False,
            } | ({"$defs": definitions} if definitions else {})
        self._adapter = adapter
        self.spec = OutputSpec(getattr(self._kind, "__name__", "Output"), schema)

    def problem(self, text: str) -> str | None:
        """What is wrong with this answer, in words the model can act on."""
        from pydantic import ValidationError

        try:
            self.value(text)
        except ValidationError as error:
            return problems_of(error)
        return None

    def value(self, text: str) -> T:
        if self._adapter is None:
            return text  # pyright: ignore[reportReturnType]
        if not self._wrapped:
            return self._adapter.validate_json(text)
        from pydantic import TypeAdapter

        whole = TypeAdapter(dict[str, Any]).validate_json(text)
        return self._adapter.validate_python(whole.get("result"))
