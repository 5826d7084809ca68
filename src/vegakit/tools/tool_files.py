"""Tools from a YAML file: commands, HTTP requests and Python functions, built within the grant of
the file; each `load` reads it anew.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from string import Formatter
from typing import Any, TypeAlias, cast
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from vegakit.conversation import ToolSpec
from vegakit.errors import CapabilityDenied, InvalidRuleError, UserError, did_you_mean
from vegakit.ids import Digest
from vegakit.policy import (
    Denied,
    Fetch,
    Grant,
    RunCommand,
    Use,
    decide,
    delegate,
    parse_url,
    risky_word,
)
from vegakit.ports import Sandbox, Tool
from vegakit.tools.decorator import ToolContext
from vegakit.tools.functions import FunctionTool, ToolArgumentsError, ToolRights, declared_rights
from vegakit.tools.http import Http
from vegakit.tools.sandbox.command import digests_of_named, shown_run
from vegakit.tools.tool_tables import (
    KINDS,
    MAX_BYTES,
    ArgumentsSchema,
    RequestTable,
    ToolFileProblem,
    ToolFileTable,
    ToolTable,
    YamlNode,
    convert_node,
    read_yaml,
)

# Words and URLs with `{parameter}` in them. `{{` and `}}` stand for the braces themselves.
#
# | template                       | value                   | becomes                             |
# |--------------------------------|-------------------------|-------------------------------------|
# | `[grep, "{text}", src]`        | `a; rm -rf /`           | one word: no shell reads it         |
# | the same                       | `-f`, `@list`, `A=b`    | refused: no value begins an option  |
# | `[sed, -n, "{script}", a]`     | `w x`                   | refused: sed would write a file     |
# | `"--regexp={text}"`            | `-f`                    | `--regexp=-f`                       |
# | `"{paths}"`, an array          | `[a, b]`                | two words                           |
# | `https://host/items/{item}?q=` | `../x?y#z`              | `..%2Fx%3Fy%23z`                    |
# | the same                       | `..`, `.`, nothing      | refused: it would be another path   |


Template: TypeAlias = tuple[tuple[str, str | None], ...]
"""Literal text, and the parameter after it."""

_ONE_PLAIN = Grant(("process::exec",), commands=("program *",))


def parse_template(text: str) -> Template | str:
    """Or what is wrong with it."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        return f"{text[:80]!a}: {error}; write {{{{ for a brace that is meant"
    for _, name, form, conversion in parts:
        if name is not None and (form or conversion or not name.isidentifier()):
            return f"{text[:80]!a}: braces hold the name of a parameter, as in {{path}}"
    return tuple((literal, name) for literal, name, _, _ in parts)


def fill_words(templates: Sequence[Template], values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words of a command with the model's values in their places."""
    words: list[str] = []
    given: list[int] = []
    for template in templates:
        made = _words(template, values)
        if template and template[0][0] == "":
            given += range(len(words), len(words) + len(made))
        words += made
    for at in given:
        _check_plain(words[at])
    risky = risky_word(tuple(words), given)
    if risky is not None:
        raise CapabilityDenied(
            f"with {risky[:80]!a} {words[0]} writes or runs something else; give another value"
        )
    return tuple(words)


def fill_url(template: Template, values: Mapping[str, Any]) -> str:
    """Return a URL with the model's values in their places; none of them can change its path."""
    url = _filled(template, values, _quoted)
    before = _filled(template, dict.fromkeys(values, "{}"), str)
    for was, name in zip(_path(before), _path(url), strict=True):
        if was != name and name in {"", ".", ".."}:
            raise ToolArgumentsError(
                f"the value {name!r} would name another path; give a name that is one"
            )
    return url


def _words(template: Template, values: Mapping[str, Any]) -> list[str]:
    match template:
        case (("", str(name)),) if isinstance(values[name], tuple):
            return [_text(part) for part in values[name]]
        case _:
            return [_filled(template, values, _text)]


def _filled(template: Template, values: Mapping[str, Any], render: Callable[[Any], str]) -> str:
    return "".join(
        literal + ("" if name is None else render(values[name])) for literal, name in template
    )


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(value: str | float | bool) -> str:
    return quote(_text(value), safe="")


def _path(url: str) -> list[str]:
    return url.partition("?")[0].partition("#")[0].split("/")


def _check_plain(word: str) -> None:
    """`*` in a rule is one plain argument, and so is a value that begins a word."""
    if isinstance(decide(_ONE_PLAIN, RunCommand(("program", word))), Denied):
        raise CapabilityDenied(
            f"{word[:80]!a} is no plain argument: it is empty, holds a control character, or "
            "begins like an option (-, +), a list (@) or an assignment (NAME=); give another value"
        )


# Tools are built from their tables.
#
# kind      | runs                            | its rights
# ----------|---------------------------------|--------------------------------------------------
# `command` | its words, in the sandbox       | `process::exec` for this program
# `http`    | one request, over confined HTTP | `net::get` or `net::post` for the host of its URL
# `python`  | a function of a listed module   | the handles it is given, as `@tool` has them
#
# All of them within the grant that the file as a whole was given. Who may write the file cannot
# widen it, nor name a module that was not listed.


_FOR_PYTHON_ALONE = ("allowed_paths", "allowed_hosts")
_NOT_FOR_PYTHON = ("parameters",)


class ToolFileOptions(Struct, frozen=True):
    """The options that the caller hands in, and a file cannot say."""

    grant: Grant
    sandbox: Sandbox | None
    modules: tuple[str, ...]
    root: Path
    owner: str


class _ToolEntry:
    """A table of the file and where it stands."""

    def __init__(self, table: ToolTable, node: YamlNode, options: ToolFileOptions) -> None:
        self.table, self.node, self.options = table, node, options
        parameters = {} if table.parameters is UNSET else table.parameters
        self.parameters = parameters
        self.arguments = ArgumentsSchema(parameters, node.child("parameters"))

    def wrong(self, key: str, reason: str) -> ToolFileProblem:
        return ToolFileProblem(self.node.child(key).line, f"{self.table.name}: {reason}")

    def grant(self, key: str, **rules: tuple[str, ...]) -> Grant:
        capabilities = self.table.capabilities or ()
        try:
            own = replace(Grant(capabilities), **rules)
        except InvalidRuleError as error:
            raise self.wrong(key, str(error)) from None
        for capability in capabilities:
            verdict = decide(self.options.grant, Use(capability))
            if isinstance(verdict, Denied):
                raise self.wrong("capabilities", f"for the whole file {verdict.reason}")
        return delegate(self.options.grant, own)

    def template(self, text: str, key: str) -> Template:
        found = parse_template(text)
        if isinstance(found, str):
            raise self.wrong(key, found)
        for _, name in found:
            if name is not None and name not in self.parameters:
                hint = did_you_mean(name, [*self.parameters])
                raise self.wrong(key, f"{{{name}}} is no parameter; {hint}")
        return found

    def check_all_used(self, templates: list[Template]) -> None:
        used = {name for template in templates for _, name in template}
        for name in self.parameters:
            if name not in used:
                reason = f"the parameter {name} is used nowhere; write {{{name}}} where it goes"
                raise self.wrong("parameters", reason)

    def arrays(self, template: Template) -> list[str]:
        return [name for _, name in template if name and self.parameters[name].type == "array"]

    def spec(self) -> ToolSpec:
        return ToolSpec(self.table.name, self.table.description, self.arguments.schema)


class _FileTool:
    def __init__(self, entry: _ToolEntry) -> None:
        self.spec = entry.spec()
        self.idempotent = entry.table.idempotent
        self.timeout_ms = entry.table.timeout_ms
        self._arguments = entry.arguments


class _Command(_FileTool):
    def __init__(
        self, entry: _ToolEntry, words: list[Template], grant: Grant, sandbox: Sandbox
    ) -> None:
        super().__init__(entry)
        self._words, self._grant, self._sandbox = words, grant, sandbox
        self._owner = entry.options.owner

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        return ToolRights((self._filled(arguments),), self._grant, sandboxed=True)

    async def contents(self, arguments: Mapping[str, Any]) -> dict[str, Digest]:
        return await digests_of_named(self._sandbox, self._filled(arguments).argv)

    def _filled(self, arguments: Mapping[str, Any]) -> RunCommand:
        values = self._arguments.checked(self.spec.name, arguments)
        return RunCommand(fill_words(self._words, values))

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        del deps
        verdict = decide(self._grant, self._filled(arguments))
        if isinstance(verdict, Denied):
            raise CapabilityDenied(verdict.reason)
        assert isinstance(verdict.wanted, RunCommand)
        return shown_run(await self._sandbox.run(verdict.wanted.argv, owner=self._owner))


class _Request(_FileTool):
    returns_untrusted_text = True

    def __init__(
        self, entry: _ToolEntry, request: RequestTable, url: Template, grant: Grant
    ) -> None:
        super().__init__(entry)
        self._method, self._url, self._grant = request.method, url, grant
        self._http = Http(grant, timeout_ms=self.timeout_ms)
        self._in_url = {name for _, name in url}

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        return declared_rights(self._grant)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        del deps
        values = self._arguments.checked(self.spec.name, arguments)
        url = fill_url(self._url, {k: v for k, v in values.items() if k in self._in_url})
        sent = {name: value for name, value in values.items() if name not in self._in_url}
        headers = {"Content-Type": "application/json"} if sent else {}
        body = msgspec.json.encode(sent) if sent else b""
        answer = await self._http.fetch(self._method, url, headers=headers, body=body)
        return f"HTTP {answer.status}\n{answer.body.decode(errors='backslashreplace')}"


def build_tool(table: ToolTable, node: YamlNode, options: ToolFileOptions) -> Tool:
    """Return the tool that a table describes."""
    entry = _ToolEntry(table, node, options)
    kinds = [kind for kind in KINDS if getattr(table, kind) is not UNSET]
    if len(kinds) != 1:
        said = " and ".join(kinds) or "none"
        raise entry.wrong("name", f"a tool has one of {', '.join(KINDS)}; this one has {said}")
    for key in _NOT_FOR_PYTHON if kinds == ["python"] else _FOR_PYTHON_ALONE:
        if getattr(table, key):
            raise entry.wrong(key, f"{key} says nothing about {kinds[0]}; take it out")
    return _MAKERS[kinds[0]](entry)


def _command(entry: _ToolEntry) -> Tool:
    words = entry.table.command
    assert words is not UNSET
    if entry.options.sandbox is None:
        raise entry.wrong(
            "command", "commands run in a sandbox, and none was given; pass ToolFile(..., sandbox=)"
        )
    templates = [entry.template(word, "command") for word in words]
    entry.check_all_used(templates)
    if any(name for _, name in templates[0]):
        raise entry.wrong("command", "the first word is the program itself, not a parameter")
    for template in templates:
        if len(template) > 1 and entry.arrays(template):
            array = entry.arrays(template)[0]
            raise entry.wrong("command", f'an array is a word of its own; write "{{{array}}}"')
    grant = entry.grant("command", commands=(f"{words[0]} ***",))
    own = replace(grant, within=())
    _check_granted(entry, own, RunCommand((words[0],)), "command")
    return _Command(entry, templates, grant, entry.options.sandbox)


def _http(entry: _ToolEntry) -> Tool:
    request = entry.table.http
    assert request is not UNSET
    url = entry.template(request.url, "http")
    if request.method == "GET":
        entry.check_all_used([url])
    if arrays := entry.arrays(url):
        raise entry.wrong("http", f"{arrays[0]} is an array, which no URL holds; use a string")
    scheme, _, rest = url[0][0].partition("://") if url else ("", "", "")
    if "/" not in rest:
        raise entry.wrong(
            "http", "a URL begins with its host written out, as in https://api.example.com/{item}"
        )
    wanted = parse_url(request.method, f"{scheme}://{rest}")
    if isinstance(wanted, Denied):
        raise entry.wrong("http", wanted.reason)
    ending = "" if wanted.port == 443 else f":{wanted.port}"
    grant = entry.grant("http", hosts=(f"{wanted.host}{ending}",))
    _check_granted(entry, grant, wanted, "http")
    return _Request(entry, request, url, grant)


def _check_granted(entry: _ToolEntry, grant: Grant, wanted: RunCommand | Fetch, key: str) -> None:
    verdict = decide(grant, wanted)
    if isinstance(verdict, Denied):
        raise entry.wrong(key, verdict.reason)


def _python(entry: _ToolEntry) -> Tool:
    table = entry.table
    assert table.python is not UNSET
    module, _, name = table.python.partition(":")
    if module not in entry.options.modules:
        raise entry.wrong(
            "python",
            f"functions of {module} are not offered to files; pass "
            f'ToolFile(..., modules=["{module}"]) if you trust whoever writes this file with them',
        )
    grant = entry.grant("python", paths=table.allowed_paths, hosts=table.allowed_hosts)
    tool = FunctionTool(
        _function(entry, module, name),
        name=table.name,
        idempotent=table.idempotent,
        timeout_ms=table.timeout_ms,
        context=ToolContext(entry.options.root, grant, is_declared=table.capabilities is not UNSET),
    )
    tool.spec = replace(tool.spec, description=table.description)
    return tool


def _function(entry: _ToolEntry, module: str, name: str) -> Callable[..., Any]:
    """Return a function of this module itself: one that it imported from elsewhere is not
    offered."""
    try:
        found = vars(importlib.import_module(module))
    except ImportError as error:
        raise entry.wrong("python", f"{module} cannot be imported: {error}") from None
    own = {
        key: value
        for key, value in found.items()
        if inspect.isfunction(value) and value.__module__ == module and not key.startswith("_")
    }
    if name not in own:
        raise entry.wrong(
            "python", f"{module} has no function {name}; {did_you_mean(name, [*own])}"
        )
    return own[name]


_MAKERS: dict[str, Callable[[_ToolEntry], Tool]] = {
    "command": _command,
    "http": _http,
    "python": _python,
}


# One tool that is a command, from a table that was read elsewhere.


class CommandPlace(Struct, frozen=True):
    """The folder over which a command will run, whose files an approval names."""

    workspace: Path
    name: str = "sandbox"


_SANDBOXED = ("fs::read", "fs::write", "process::exec")


def command_tool(table: Mapping[str, Any], place: CommandPlace | None = None) -> Tool:
    """Return the tool of a table, which must be a command; raise `ToolFileProblem` if it is wrong.
    Who has it runs the words of its `rights` in a sandbox of their own."""
    node = _node(dict(table))
    found = convert_node(ToolTable, node)
    if found.command is UNSET:
        raise ToolFileProblem(0, 'a tool here is a command; write command = ["program", "{path}"]')
    if found.capabilities is UNSET:
        reason = 'it declares no capabilities; write capabilities = ["process::exec"], and '
        raise ToolFileProblem(0, f'{reason}"fs::write" too if it changes files')
    grant = Grant(_SANDBOXED, commands=(f"{found.command[0]} ***",))
    sandbox = cast("Sandbox", place or CommandPlace(Path()))
    return build_tool(found, node, ToolFileOptions(grant, sandbox, (), Path(), "tools"))


def _node(value: Any) -> YamlNode:  # noqa: ANN401
    """Return a value of TOML or JSON as a node; it has no line."""
    match value:
        case dict():
            children = cast("dict[str, Any]", value)
            return YamlNode(0, {str(key): _node(child) for key, child in children.items()})
        case list():
            return YamlNode(0, [_node(part) for part in cast("list[Any]", value)])
        case str() | int() | float() | bool():
            return YamlNode(0, value)
        case _:
            raise ToolFileProblem(0, f"{str(value)[:40]!a} is no text, number, true or false")


# A file of tools.


class ToolFileError(UserError):
    """The file is wrong; the text begins with file and line."""


class ToolFile:
    """A file of tools in YAML. Without a grant no tool of the file may do anything; without a
    sandbox none is a command."""

    def __init__(
        self,
        path: str | PathLike[str],
        grant: Grant | None = None,
        *,
        sandbox: Sandbox | None = None,
        modules: Sequence[str] = (),
        root: str | PathLike[str] = ".",
        owner: str = "tools",
    ) -> None:
        self._path = Path(path)
        self._options = ToolFileOptions(
            grant or Grant(), sandbox, tuple(modules), Path(root), owner
        )

    def load(self) -> tuple[Tool, ...]:
        """Read the file and return its tools."""
        try:
            return _tools(read_yaml(self._content()), self._options)
        except ToolFileProblem as error:
            raise ToolFileError(f"{self._path}:{error.line}: {error}") from None

    def _content(self) -> bytes:
        """Read one byte more than is allowed, so that a file that is too large is seen to be."""
        if not self._path.is_file():
            raise ToolFileError(f"{self._path}: there is no such file; write one, or name another")
        try:
            with self._path.open("rb") as file:
                return file.read(MAX_BYTES + 1)
        except OSError as error:
            raise ToolFileError(f"{self._path}: {error.strerror}") from error


def _tools(node: YamlNode, options: ToolFileOptions) -> tuple[Tool, ...]:
    tables, listed = convert_node(ToolFileTable, node).tools, node.child("tools").value
    assert isinstance(listed, list)
    found: dict[str, Tool] = {}
    for table, place in zip(tables, listed, strict=True):
        if table.name in found:
            raise ToolFileProblem(
                place.child("name").line, f"{table.name} is the name of two tools; rename one"
            )
        found[table.name] = build_tool(table, place, options)
    return tuple(found.values())
