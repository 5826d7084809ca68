"""Python and programs: types and values in both forms, Python functions that programs call, and the
tool `run_program` by which models write programs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, cast

from vegakit.conversation import ToolSpec
from vegakit.errors import BugError, ContractViolated, ToolFailed, UserError
from vegakit.host.agents import Agent, AuthorTool, ValueTool
from vegakit.lang import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NOTHING,
    NULL,
    STR,
    ChoiceOf,
    Function,
    ListOf,
    MapOf,
    OptionalOf,
    Parameter,
    Plain,
    Problem,
    RecordOf,
    Signature,
    Type,
    card,
    signature_text,
    value_of,
)
from vegakit.money import NANOS, Money, dollars, format_money
from vegakit.ports import AuditLevel, Tool
from vegakit.program import AT_MOST, LANGUAGES, MOST_BYTES, TYPICAL, ProgramRights
from vegakit.records import to_json
from vegakit.tools import FunctionTool, ToolRights, function_tool

# Values of programs and of Python: what goes in as an argument, and what comes out.


def arguments(function: Function, given: Sequence[Any]) -> list[Any]:
    """Return arguments of Python as values of a program."""
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
    """Return a value as JSON, also of pydantic models, dataclasses and the like."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value)


def python_value(value: Any) -> Any:  # noqa: ANN401
    """Return a value of a program as one of Python. Money comes as a `Decimal` of dollars, a time
    as a `timedelta`, a file as a `Path`."""
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


# Types of Python as types of programs, by their JSON schema.
#
# | in the schema                     | in a program        |
# |-----------------------------------|---------------------|
# | string, integer, number, boolean  | `str int float bool`|
# | enum or const of strings          | a choice            |
# | array                             | a list              |
# | object with properties            | a record            |
# | other object                      | a map               |
# | anyOf with null                   | optional            |
# | nothing said                      | `any`               |
#
# A field or parameter with a default is optional. What else there is, is refused: tuples, other
# unions, types that contain themselves.


Schema = Mapping[str, Any]

_PLAIN: dict[str, Type] = {
    "string": STR,
    "integer": INT,
    "number": FLOAT,
    "boolean": BOOL,
    "null": NULL,
}


def type_in(schema: Schema, what: str) -> Type:
    """Return a type of Python as one of a program. `what` is told where it cannot be: "the result
    of look"."""
    return _Reader(schema.get("$defs", {}), what).read(schema)


def without_defaults(schema: Schema, value: Any, defs: Schema | None = None) -> Any:  # noqa: ANN401
    """Return a record less the fields that are null and need not be there: Python has its own
    default for them."""
    known = cast("Schema", schema.get("$defs", {})) if defs is None else defs
    schema = _resolved(schema, known)
    if isinstance(value, list):
        inner = schema.get("items", {})
        return [without_defaults(inner, item, known) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields, properties = cast("dict[str, Any]", value), schema.get("properties", {})
    required = schema.get("required", properties if not properties else ())
    others = _others(schema)
    return {
        name: without_defaults(properties.get(name, others), field, known)
        for name, field in fields.items()
        if field is not None or name in required or name not in properties
    }


def _others(schema: Schema) -> Schema:
    inner: Any = schema.get("additionalProperties", {})
    return {} if isinstance(inner, bool) else cast("Schema", inner)


def _resolved(schema: Schema, defs: Schema) -> Schema:
    """Follow a reference, and return what is not null."""
    if "$ref" in schema:
        return _resolved(defs[schema["$ref"].rpartition("/")[2]], defs)
    some = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return _resolved(some[0], defs) if len(some) == 1 else schema


class _Reader:
    def __init__(self, defs: Schema, what: str) -> None:
        self._defs, self._what = defs, what
        self._open: list[str] = []

    def read(self, schema: Schema) -> Type:
        if "$ref" in schema:
            return self._named(schema["$ref"].rpartition("/")[2])
        if "anyOf" in schema or "oneOf" in schema:
            return self._either(schema.get("anyOf") or schema["oneOf"])
        if "enum" in schema or "const" in schema:
            return self._choice(schema.get("enum") or [schema["const"]])
        match schema.get("type"):
            case None:
                return ANY
            case "array":
                return self._list(schema)
            case "object":
                return self._object(schema)
            case "string" if "maxLength" in schema:
                return Plain("str", schema["maxLength"])
            case str(name) if name in _PLAIN:
                return _PLAIN[name]
            case other:
                raise self._refusal(f"{other} is no type of a program")

    def _named(self, name: str) -> Type:
        if name in self._open:
            raise self._refusal(f"{name} contains itself; keep the parts in one list")
        self._open.append(name)
        kind = self.read(self._defs[name])
        self._open.pop()
        return kind

    def _either(self, options: list[Schema]) -> Type:
        some = [option for option in options if option.get("type") != "null"]
        if len(some) != 1:
            raise self._refusal("it may be of several types; take one, or one and None")
        kind = self.read(some[0])
        return _optional(kind) if len(some) < len(options) else kind

    def _choice(self, choices: list[Any]) -> Type:
        if not all(isinstance(choice, str) for choice in choices):
            raise self._refusal("a choice is among strings")
        return ChoiceOf(tuple(choices))

    def _list(self, schema: Schema) -> Type:
        if "prefixItems" in schema:
            raise self._refusal("a program has no tuples; take a list, or a model")
        return ListOf(self.read(schema.get("items", {})), schema.get("maxItems"))

    def _object(self, schema: Schema) -> Type:
        if "properties" not in schema:
            return MapOf(self.read(_others(schema)), schema.get("maxProperties"))
        name = schema.get("title", "")
        required = schema.get("required", ())
        fields: list[tuple[str, Type]] = []
        for field, inside in schema["properties"].items():
            if not field.isidentifier():
                raise self._refusal(f"{field!r} cannot name a field")
            kind = self.read(inside)
            fields.append((field, kind if field in required else _optional(kind)))
        return RecordOf(name, tuple(fields))

    def _refusal(self, why: str) -> UserError:
        return UserError(f"{self._what} cannot be given to a program: {why}")


def _optional(kind: Type) -> Type:
    return (
        kind if isinstance(kind, OptionalOf) or kind in (ANY, Plain("null")) else OptionalOf(kind)
    )


# What a model is told of the programs that it may write: its agents, functions, rights, limits.


_LONGEST = 120


def notes_of(tool: "RunProgram", *, teach: bool) -> str:
    """Return what an agent is told about writing programs."""
    agents = [f"- {agent.name}: {_line(agent.instructions)}" for agent in tool.agents]
    given = (model for agent in tool.agents for model in agent.models)
    models = sorted({model for model in given if isinstance(model, str)})
    models = [*models, *(name for name in tool.models if name not in models)]
    functions = [f"- {signature_text(one)}" for one in tool.interop.signatures.values()]
    rows = [
        f"# Programs for {tool.spec.name}",
        f"At most {format_money(tool.cost)} each by the quote, {tool.most} in a turn.",
        "Nothing of it runs before it is accepted. Bound lists and loops, so that it has a quote.",
        *_listed("Agents it may ask by name, without declaring them", agents),
        *_listed("Functions it may call", functions),
        f"Rights of its code: {_rights(tool)}.",
        f"Models of agents that it declares itself: {', '.join(models) or 'none'}.",
    ]
    first, *others = tool.languages
    rows += [f"It is in {first}, or with `language` in {' or '.join(others)}."] if others else []
    page = card("python" if first == "python" else "vega") if teach else ""
    return "\n".join([*rows, "", page]).rstrip()


def _listed(title: str, rows: list[str]) -> list[str]:
    return [f"{title}:", *rows] if rows else [f"{title}: none."]


def _line(system: str) -> str:
    first = system.strip().partition("\n")[0]
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]}…"


def _rights(tool: "RunProgram") -> str:
    may = tool.may
    if not may.capabilities:
        return "none but print" + (" and human::" if may.people else "")
    rules = {"paths": may.paths, "commands": may.commands, "hosts": may.hosts}
    limits = [f"{name} {', '.join(each)}" for name, each in rules.items() if each]
    return "; ".join([", ".join(may.capabilities), *limits, *(["human::"] if may.people else [])])


# `run_program`: a tool by which the model of an agent writes programs and runs them.
#
# Each is checked, compared with what was given here, and quoted, before its first call. What is
# refused comes back to the model as text that says how to fix it.


_NOTHING = ProgramRights()
_MOST_FUEL = 2_000_000
"""Instructions that one program may burn: below a second of a core."""


def run_program(
    agents: "Sequence[Agent[Any]]" = (),
    tools: "Iterable[ToolLike]" = (),
    *,
    max_cost: str | float = "$1",
    admit: str = AT_MOST,
    speculate: str | float | None = None,
    may: ProgramRights = _NOTHING,
    models: Sequence[str] = (),
    types: Iterable[Any] = (),
    most: int = 8,
    nested: int = 1,
    timeout: float = 600.0,
    root: str | PathLike[str] = ".",
    name: str = "run_program",
    languages: Sequence[str] = tuple(LANGUAGES),
    teach: bool = True,
) -> "RunProgram":
    """A program may ask `agents` by name, call `tools` (functions of Python) and knows `types`;
    `may` is what its own code may touch below `root`. It costs `max_cost` at most, and runs for
    `timeout` seconds at most. It is accepted if all that it may cost is within that; with
    `admit="typical"` if what it usually costs is: what does not fit any more is refused then while
    it runs. `speculate` limits what its calls may cost in vain that are begun behind a guard which
    is not decided yet, within the limit of the run. It may declare agents of its own, on the models
    of `agents` or on `models`, with tools of `tools` or written beside them. `most` programs may
    run in one turn, and `nested` deep inside each other. They are written in one of `languages`;
    with `teach` the model is told the first of them."""
    return RunProgram(
        tuple(agents),
        tuple(tools),
        max_cost,
        admit,
        may,
        tuple(models),
        tuple(types),
        most,
        nested,
        round(timeout * 1000),
        Path(root),
        name,
        tuple(languages),
        teach=teach,
        guesses=None if speculate is None else dollars(speculate),
    )


class RunProgram(AuthorTool):
    """The tool with which an agent runs a program it wrote: the machine of its program runs it; no
    host ever calls it."""

    idempotent = False
    audit = AuditLevel.BASIC

    def __init__(
        self,
        agents: "tuple[Agent[Any], ...]",
        tools: "tuple[ToolLike, ...]",
        max_cost: str | float,
        admit: str,
        may: ProgramRights,
        models: tuple[str, ...],
        types: tuple[Any, ...],
        most: int,
        nested: int,
        timeout_ms: int,
        root: Path,
        name: str,
        languages: tuple[str, ...],
        *,
        teach: bool,
        guesses: Money | None = None,
    ) -> None:
        _check(agents, tools, most, nested, timeout_ms)
        if not languages or not set(languages) <= LANGUAGES.keys():
            raise UserError(f"languages are some of: {', '.join(LANGUAGES)}")
        if admit not in (AT_MOST, TYPICAL):
            raise UserError(f"there is no admit={admit!r}; write {AT_MOST!r} or {TYPICAL!r}")
        self.admit = admit
        self.agents, self.models = agents, models
        self.cost, self.guesses, self.may = dollars(max_cost), guesses, may
        self.most, self.nested, self.timeout_ms = most, nested, timeout_ms
        self.root, self.fuel = root, _MOST_FUEL
        self.languages = languages
        self._tools, self._types, self._teach = tools, types, teach
        self.spec = ToolSpec(name, self._description(), _parameters(self.languages))

    @cached_property
    def interop(self) -> "PythonInterop":
        """The functions and types of Python that its programs may use."""
        return PythonInterop(self._tools, self._types)

    @cached_property
    def notes(self) -> str:
        """The text that its agent is told beside: a tool's description is too short for a
        language."""
        return notes_of(self, teach=self._teach)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        """Raise: the machine runs this tool."""
        raise BugError(f"{self.spec.name} runs inside its program")

    def _description(self) -> str:
        return (
            "Write a program and run it: loops, conditions and many agents at once, for what "
            "would take many calls one by one. It is checked and priced before its first call, may "
            f"cost at most {format_money(self.cost)}{self._at_cap()}, and gives back its result, "
            "what it printed and what it spent. If it is refused, fix the source as the text says "
            "and send all of it again."
        )

    def _at_cap(self) -> str:
        """Return what happens at the cap, where it may be reached."""
        usually = " (what it usually costs is compared; a send that does not fit fails with "
        return f"{usually}BudgetExceeded)" if self.admit == TYPICAL else ""


def _parameters(languages: tuple[str, ...]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "source": {"type": "string", "description": f"The program, at most {MOST_BYTES:,} bytes."},
        "arguments": {"type": "object", "description": "The parameters of main, by name."},
    }
    if len(languages) > 1:
        fields["language"] = {"type": "string", "enum": list(languages)}
    return {"type": "object", "properties": fields, "required": ["source"]}


def _check(
    agents: "tuple[Agent[Any], ...]", tools: tuple[object, ...], most: int, nested: int, ms: int
) -> None:
    names = [agent.name for agent in agents]
    for name in names:
        if not (name.isidentifier() and name.isascii()) or names.count(name) > 1:
            raise UserError(
                f"a program cannot ask the agent {name!r}; give each agent a name of its own, of "
                'letters, digits and _, as in Agent("reader", …)'
            )
    if any(isinstance(tool, RunProgram) for tool in tools):
        raise UserError(
            "a program does not run programs itself; give run_program to one of its agents: "
            "Agent(…, tools=[run_program(…)])"
        )
    if most < 1 or nested < 0 or ms < 1:
        raise UserError("most and timeout are at least 1, nested at least 0")


# Functions and types of Python that a program uses: `load("x.vega", tools=[look], types=[Found])`.
#
# The checker knows what each function takes and gives. A function is called with what Python
# expects, its result is held to its hint, and models come back as their instances.


ToolLike: TypeAlias = FunctionTool | RunProgram | Callable[..., Any]

PYTHON = "python:"
"""Before the names of these functions in bytecode."""


class PythonTool(ValueTool):
    """A function of Python as a program calls it: it gives a value, in JSON. `tool` is the one that
    models call."""

    def __init__(self, tool: FunctionTool) -> None:
        self.tool = tool
        self.spec, self.timeout_ms = tool.spec, tool.timeout_ms
        self.idempotent, self.audit = tool.idempotent, tool.audit
        self.signature = _signature(tool)

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        """Return the rights that a call needs."""
        return self.tool.rights(self._given(arguments))

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        """Call the function, and return its result as JSON."""
        from pydantic_core import to_jsonable_python

        gave = to_jsonable_python(await self.tool.value(self._given(arguments), deps))
        result = self.signature.result
        made = value_of(NULL if result == NOTHING else result, gave)
        if isinstance(made, Problem):
            raise ToolFailed(f"{self.spec.name} gave something else than it says: {made}")
        return to_json(made).decode()

    def _given(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        plain = python_value(dict(arguments))
        return cast("dict[str, Any]", without_defaults(self.spec.parameters, plain))


class PythonInterop:
    """The functions and types of Python that a program may use."""

    def __init__(self, tools: Iterable[ToolLike] = (), types: Iterable[Any] = ()) -> None:
        given = list(tools)
        authors = {one.spec.name: one for one in given if isinstance(one, RunProgram)}
        made = [PythonTool(_tool(one)) for one in given if not isinstance(one, RunProgram)]
        self.tools: dict[str, Tool] = {tool.spec.name: tool.tool for tool in made}
        self.tools |= authors
        self.called: dict[str, Tool] = {f"{PYTHON}{tool.spec.name}": tool for tool in made}
        self.signatures = {tool.spec.name: tool.signature for tool in made}
        self.signatures |= {name: Signature(name, (), NOTHING) for name in authors}
        self.types: dict[str, Type] = {}
        self._adapters: dict[str, Any] = {}
        for one in types:
            self._take(one)

    def result(self, kind: Type, value: Any) -> Any:  # noqa: ANN401
        """A value of Python with the models that were given."""
        match kind:
            case _ if value is None:
                return None
            case OptionalOf(inner=inner):
                return self.result(inner, value)
            case ListOf(inner=inner):
                return [self.result(inner, item) for item in value]
            case MapOf(inner=inner):
                return {key: self.result(inner, item) for key, item in value.items()}
            case RecordOf(name=name) if self.types.get(name) == kind:
                adapter = self._adapters[name]
                return adapter.validate_python(without_defaults(adapter.json_schema(), value))
            case _:
                return value

    def _take(self, model: Any) -> None:  # noqa: ANN401
        from pydantic import TypeAdapter

        adapter: TypeAdapter[Any] = TypeAdapter(model)
        name = getattr(model, "__name__", repr(model))
        kind = type_in(adapter.json_schema(), f"the type {name}")
        if not isinstance(kind, RecordOf) or not kind.name.isidentifier():
            raise UserError(f"types=[{name}]: a program is given types with fields and a name")
        self.types[kind.name] = kind
        self._adapters[kind.name] = adapter


def _tool(one: FunctionTool | Callable[..., Any]) -> FunctionTool:
    return cast("FunctionTool", one) if isinstance(one, FunctionTool) else function_tool(one)


def _signature(tool: FunctionTool) -> Signature:
    from pydantic import TypeAdapter

    name, schema = tool.spec.name, tool.spec.parameters
    if not name.isidentifier():
        raise UserError(f"a program cannot call {name!r}; give the tool a name without signs")
    record = type_in({"title": name, "properties": {}, **schema}, f"a parameter of {name}")
    assert isinstance(record, RecordOf)
    params = tuple(
        Parameter(
            field, kind, isinstance(kind, OptionalOf) and field not in schema.get("required", ())
        )
        for field, kind in record.fields
    )
    is_pure: bool = getattr(tool, "is_pure", False)
    if tool.result is None or tool.result is type(None):
        return Signature(name, params, NOTHING, is_pure)
    result = (
        ANY
        if tool.result is Any
        else type_in(TypeAdapter(tool.result).json_schema(), f"the result of {name}")
    )
    return Signature(name, params, result, is_pure)
