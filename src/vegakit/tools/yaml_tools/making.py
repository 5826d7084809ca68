"""From what a file says of a tool to the tool.

| kind      | runs                            | its rights                                        |
|-----------|---------------------------------|---------------------------------------------------|
| `command` | its words, in the sandbox       | `process::exec` for this program                  |
| `http`    | one request, over confined HTTP | `net::get` or `net::post` for the host of its URL |
| `python`  | a function of a listed module   | the handles it is given, as `@tool` has them      |

All of them within the grant that the file as a whole was given. Who may write the file cannot
widen it, nor name a module that was not listed.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from vegakit.conversation import ToolSpec
from vegakit.errors import CapabilityDenied, InvalidRuleError
from vegakit.policy import Denied, Fetch, Grant, RunCommand, Use, decide, delegate, parse_url
from vegakit.ports import Sandbox, Tool
from vegakit.tools.confined import Http
from vegakit.tools.functions import FunctionTool
from vegakit.tools.granted import ToolContext
from vegakit.tools.rights import Rights, declared
from vegakit.tools.sandbox.execution import shown_run
from vegakit.tools.yaml_tools.arguments import Arguments
from vegakit.tools.yaml_tools.reading import Misread, Node
from vegakit.tools.yaml_tools.tables import KINDS, Request, ToolTable, nearest
from vegakit.tools.yaml_tools.templates import Template, filled_url, filled_words, template_of

__all__ = ["Given", "made"]

_FOR_PYTHON_ALONE = ("allowed_paths", "allowed_hosts")
_NOT_FOR_PYTHON = ("parameters",)


class Given(Struct, frozen=True):
    """What the caller hands in, and a file cannot say."""

    grant: Grant
    sandbox: Sandbox | None
    modules: tuple[str, ...]
    root: Path
    owner: str


class _Written:
    """A table of the file and where it stands."""

    def __init__(self, table: ToolTable, node: Node, given: Given) -> None:
        self.table, self.node, self.given = table, node, given
        parameters = {} if table.parameters is UNSET else table.parameters
        self.parameters = parameters
        self.arguments = Arguments(parameters, node.child("parameters"))

    def wrong(self, key: str, reason: str) -> Misread:
        return Misread(self.node.child(key).line, f"{self.table.name}: {reason}")

    def grant(self, key: str, **rules: tuple[str, ...]) -> Grant:
        try:
            own = replace(Grant(self.table.capabilities), **rules)
        except InvalidRuleError as error:
            raise self.wrong(key, str(error)) from None
        for capability in self.table.capabilities:
            verdict = decide(self.given.grant, Use(capability))
            if isinstance(verdict, Denied):
                raise self.wrong("capabilities", f"for the whole file {verdict.reason}")
        return delegate(self.given.grant, own)

    def template(self, text: str, key: str) -> Template:
        found = template_of(text)
        if isinstance(found, str):
            raise self.wrong(key, found)
        for _, name in found:
            if name is not None and name not in self.parameters:
                hint = nearest(name, [*self.parameters])
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


class _Around:
    def __init__(self, written: _Written) -> None:
        self.spec = written.spec()
        self.repeatable = written.table.repeatable
        self.timeout_ms = written.table.timeout_ms
        self._arguments = written.arguments


class _Command(_Around):
    def __init__(
        self, written: _Written, words: list[Template], grant: Grant, sandbox: Sandbox
    ) -> None:
        super().__init__(written)
        self._words, self._grant, self._sandbox = words, grant, sandbox
        self._owner = written.given.owner

    def rights(self, arguments: Mapping[str, Any]) -> Rights:
        return Rights((self._filled(arguments),), self._grant, sandboxed=True)

    def _filled(self, arguments: Mapping[str, Any]) -> RunCommand:
        values = self._arguments.checked(self.spec.name, arguments)
        return RunCommand(filled_words(self._words, values))

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        del deps
        verdict = decide(self._grant, self._filled(arguments))
        if isinstance(verdict, Denied):
            raise CapabilityDenied(verdict.reason)
        assert isinstance(verdict.wanted, RunCommand)
        return shown_run(await self._sandbox.run(verdict.wanted.argv, owner=self._owner))


class _Request(_Around):
    brings_text = True

    def __init__(self, written: _Written, request: Request, url: Template, grant: Grant) -> None:
        super().__init__(written)
        self._method, self._url, self._grant = request.method, url, grant
        self._http = Http(grant, timeout_ms=self.timeout_ms)
        self._in_url = {name for _, name in url}

    def rights(self, arguments: Mapping[str, Any]) -> Rights:
        return declared(self._grant)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        del deps
        values = self._arguments.checked(self.spec.name, arguments)
        url = filled_url(self._url, {k: v for k, v in values.items() if k in self._in_url})
        sent = {name: value for name, value in values.items() if name not in self._in_url}
        headers = {"Content-Type": "application/json"} if sent else {}
        body = msgspec.json.encode(sent) if sent else b""
        answer = await self._http.fetch(self._method, url, headers=headers, body=body)
        return f"HTTP {answer.status}\n{answer.body.decode(errors='backslashreplace')}"


def made(table: ToolTable, node: Node, given: Given) -> Tool:
    written = _Written(table, node, given)
    kinds = [kind for kind in KINDS if getattr(table, kind) is not UNSET]
    if len(kinds) != 1:
        said = " and ".join(kinds) or "none"
        raise written.wrong("name", f"a tool has one of {', '.join(KINDS)}; this one has {said}")
    for key in _NOT_FOR_PYTHON if kinds == ["python"] else _FOR_PYTHON_ALONE:
        if getattr(table, key):
            raise written.wrong(key, f"{key} says nothing about {kinds[0]}; take it out")
    return _MAKERS[kinds[0]](written)


def _command(written: _Written) -> Tool:
    words = written.table.command
    assert words is not UNSET
    if written.given.sandbox is None:
        raise written.wrong(
            "command", "commands run in a sandbox, and none was given; pass ToolFile(..., sandbox=)"
        )
    templates = [written.template(word, "command") for word in words]
    written.check_all_used(templates)
    if any(name for _, name in templates[0]):
        raise written.wrong("command", "the first word is the program itself, not a parameter")
    for template in templates:
        if len(template) > 1 and written.arrays(template):
            array = written.arrays(template)[0]
            raise written.wrong("command", f'an array is a word of its own; write "{{{array}}}"')
    grant = written.grant("command", commands=(f"{words[0]} ***",))
    own = replace(grant, within=())
    _check_granted(written, own, RunCommand((words[0],)), "command")
    return _Command(written, templates, grant, written.given.sandbox)


def _http(written: _Written) -> Tool:
    request = written.table.http
    assert request is not UNSET
    url = written.template(request.url, "http")
    if request.method == "GET":
        written.check_all_used([url])
    if arrays := written.arrays(url):
        raise written.wrong("http", f"{arrays[0]} is an array, which no URL holds; use a string")
    scheme, _, rest = url[0][0].partition("://") if url else ("", "", "")
    if "/" not in rest:
        raise written.wrong(
            "http", "a URL begins with its host written out, as in https://api.example.com/{item}"
        )
    wanted = parse_url(request.method, f"{scheme}://{rest}")
    if isinstance(wanted, Denied):
        raise written.wrong("http", wanted.reason)
    ending = "" if wanted.port == 443 else f":{wanted.port}"
    grant = written.grant("http", hosts=(f"{wanted.host}{ending}",))
    _check_granted(written, grant, wanted, "http")
    return _Request(written, request, url, grant)


def _check_granted(written: _Written, grant: Grant, wanted: RunCommand | Fetch, key: str) -> None:
    verdict = decide(grant, wanted)
    if isinstance(verdict, Denied):
        raise written.wrong(key, verdict.reason)


def _python(written: _Written) -> Tool:
    table = written.table
    assert table.python is not UNSET
    module, _, name = table.python.partition(":")
    if module not in written.given.modules:
        raise written.wrong(
            "python",
            f"functions of {module} are not offered to files; pass "
            f'ToolFile(..., modules=["{module}"]) if you trust whoever writes this file with them',
        )
    grant = written.grant("python", paths=table.allowed_paths, hosts=table.allowed_hosts)
    tool = FunctionTool(
        _function(written, module, name),
        name=table.name,
        repeatable=table.repeatable,
        timeout_ms=table.timeout_ms,
        context=ToolContext(written.given.root, grant),
    )
    tool.spec = replace(tool.spec, description=table.description)
    return tool


def _function(written: _Written, module: str, name: str) -> Callable[..., Any]:
    """Of this module itself: what it imported from elsewhere is not offered."""
    try:
        found = vars(importlib.import_module(module))
    except ImportError as error:
        raise written.wrong("python", f"{module} cannot be imported: {error}") from None
    own = {
        key: value
        for key, value in found.items()
        if inspect.isfunction(value) and value.__module__ == module and not key.startswith("_")
    }
    if name not in own:
        raise written.wrong("python", f"{module} has no function {name}; {nearest(name, [*own])}")
    return own[name]


_MAKERS: dict[str, Callable[[_Written], Tool]] = {
    "command": _command,
    "http": _http,
    "python": _python,
}
