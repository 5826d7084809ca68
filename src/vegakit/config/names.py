"""Names of settings: how they are spelled in vega.toml, in variables and as flags, and what each
key takes.
"""

import asyncio
import inspect
import json
import os
import re
import tomllib
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Protocol, TypeAlias, get_args, get_origin
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from vegakit.config.tables import Key, Table, Tables, parse_duration_ms
from vegakit.errors import SettingsError, did_you_mean
from vegakit.records import Json

# Keys of providers: read when a call needs them, and never kept, written or shown.
#
# | from a     | written as                                 | the key is                           |
# |------------|--------------------------------------------|--------------------------------------|
# | variable   | `{ env = "OPENAI_API_KEY" }`               | its value at that moment             |
# | command    | `{ command = ["pass", "show", "openai"] }` | the first line it prints before its  |
# |            |                                            | deadline; no shell reads its words   |
# | function   | in Python only                             | what it returns, awaited if need be  |


KeyFunction: TypeAlias = Callable[[], str | Awaitable[str]]

_FUNCTION_TIMEOUT_S = 30
_MAX_PRINTED = 65_536


class KeySource(Protocol):
    """Shown as where the key comes from."""

    def read(self) -> Awaitable[str]:
        """Return the key as it is now."""
        ...


class EnvironmentKey:
    """A key in a variable."""

    def __init__(self, variable: str, environment: Mapping[str, str]) -> None:
        self.variable = variable
        self._environment = environment

    def __repr__(self) -> str:
        return f"env {self.variable}"

    async def read(self) -> str:
        text = self._environment.get(self.variable, "")
        fix = f"set it in your shell; type: export {self.variable}=…"
        return _key(text, f"the variable {self.variable} holds no key; {fix}")


class CommandKey:
    """A key that a command prints."""

    def __init__(
        self, command: tuple[str, ...], timeout_ms: int, environment: Mapping[str, str]
    ) -> None:
        self._command = command
        self._timeout_s = timeout_ms / 1_000
        self._environment = environment

    def __repr__(self) -> str:
        """Its other words may hold a secret."""
        return f"command {self._command[0]}"

    async def read(self) -> str:
        try:
            async with asyncio.timeout(self._timeout_s):
                printed, status = await self._run()
        except TimeoutError as error:
            raise self._failed(f"took longer than {self._timeout_s:g} s") from error
        except (OSError, ValueError) as error:
            raise self._failed(f"could not be started: {error}") from error
        if status:
            raise self._failed(f"ended with status {status}")
        line = printed.decode(errors="replace").partition("\n")[0]
        return _key(line, str(self._failed("printed no key in its first line")))

    async def _run(self) -> tuple[bytes, int | None]:
        """Closing the transport kills the command and lets go of a pipe its children still hold."""
        transport, output = await asyncio.get_running_loop().subprocess_exec(
            _Output,
            *self._command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            env=dict(self._environment),
        )
        try:
            await output.ended.wait()
            return output.printed, transport.get_returncode()
        finally:
            transport.close()
            await output.ended.wait()

    def _failed(self, what: str) -> SettingsError:
        return SettingsError(
            f"the command {self._command[0]} that prints a provider's key {what}; "
            "run it by hand to see why"
        )


class _Output(asyncio.SubprocessProtocol):
    """The beginning of what a command prints; the rest is read and dropped, so that it can end."""

    def __init__(self) -> None:
        self.printed = b""
        self.ended = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.printed = (self.printed + data)[:_MAX_PRINTED]

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


class FunctionKey:
    """A key that a Python function returns."""

    def __init__(self, function: KeyFunction) -> None:
        self._function = function

    def __repr__(self) -> str:
        return "a Python function"

    async def read(self) -> str:
        key = self._function()
        if inspect.isawaitable(key):
            key = await self._in_time(key)
        return _key(key, "the Python function that finds a provider's key returned no key")

    async def _in_time(self, key: Awaitable[str]) -> str:
        try:
            async with asyncio.timeout(_FUNCTION_TIMEOUT_S):
                return await key
        except TimeoutError as error:
            raise SettingsError(
                "the Python function that finds a provider's key took longer than "
                f"{_FUNCTION_TIMEOUT_S} s; make it quicker"
            ) from error


class KeyFinder:
    """Knows where the key of each provider is; a function given in code comes first."""

    def __init__(
        self, environment: Mapping[str, str], functions: Mapping[str, KeyFunction]
    ) -> None:
        self._environment = environment
        self._functions = functions

    def __repr__(self) -> str:
        return "KeyFinder()"

    def find(self, provider: str, key: Key | None) -> KeySource:
        """Return where the key of a provider is read."""
        if provider in self._functions:
            return FunctionKey(self._functions[provider])
        if key and key.command:
            timeout_ms = parse_duration_ms(key.timeout)
            return CommandKey(key.command, timeout_ms, self._environment)
        variable = key.env if key else f"{provider.upper().replace('-', '_')}_API_KEY"
        return EnvironmentKey(variable, self._environment)


def _key(text: str, problem: str) -> str:
    key = text.strip()
    if not key or not key.isprintable():
        raise SettingsError(problem)
    return key


# Names of settings: `budget.default`, `prices."openai:gpt-x".input`.
#
# A name is written as a TOML key. Its environment variable is `VEGA_` and the words of the name in
# capitals, joined by underscores: `VEGA_BUDGET_DEFAULT`, `VEGA_PROVIDERS_OPENAI_BASE_URL`.


Name: TypeAlias = tuple[str, ...]
ANY = "*"
FOR_ONE_START = frozenset({"VEGA_JOURNAL_REPLAY", "VEGA_JOURNAL_RESUME"})
"""No settings: each is for one start of one program, and no file may say it."""
TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
"""Unlike OpenTelemetry's endpoint for all signals, this one is a whole address."""
_LOOKS_LIKE = 0.75
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def show_name(name: Name) -> str:
    """Return a name as TOML spells it."""
    return ".".join(word if _BARE.fullmatch(word) else json.dumps(word) for word in name)


def parse_name(text: str) -> Name:
    """Read a name. It is a TOML key, so TOML's parser reads it."""
    if _BARE.fullmatch(text):
        return (text,)
    words: list[str] = []
    try:
        written: Json = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        written = None
    while isinstance(written, dict) and len(written) == 1:
        ((word, written),) = written.items()
        words.append(word)
    if written != 0 or "\n" in text:
        raise SettingsError(f"{text!r} is not the name of a setting; write it like budget.default")
    return tuple(words)


def is_key(name: Name) -> bool:
    """Return whether a setting says where a provider's key is read."""
    return (name[0], *name[2:]) == ("providers", "key")


def variable_of(name: Name) -> str:
    """Return the environment variable of a setting."""
    return "VEGA_" + "_".join(name).upper()


def name_of_variable(variable: str) -> Name | None:
    """None for a variable that is not ours; one that looks like ours but is none is refused."""
    if not variable.startswith("VEGA_") or variable in FOR_ONE_START:
        return None
    known = [variable_of(name) for _, name in _variables()]
    for pattern, name in _variables():
        if match := pattern.fullmatch(variable):
            free = iter(match.groups())
            return tuple(next(free).lower() if word == ANY else word for word in name)
    if get_close_matches(_first_word(variable), map(_first_word, known), 1, _LOOKS_LIKE):
        raise SettingsError(f"{variable} is not a setting; {did_you_mean(variable, known)}")
    return None


def _first_word(variable: str) -> str:
    return variable.split("_")[1]


def table_of(annotation: Any) -> type[Table] | None:  # noqa: ANN401
    """Return the table that an annotation stands for; None if it is no table."""
    bare = _bare(annotation)
    return bare if isinstance(bare, type) and issubclass(bare, Table) else None


def dict_of(annotation: Any) -> tuple[Any, Any] | None:  # noqa: ANN401
    """Types of the keys and the values of a table whose keys are free."""
    bare = _bare(annotation)
    return get_args(bare) if get_origin(bare) is dict else None


@cache
def _variables() -> list[tuple[re.Pattern[str], Name]]:
    """One free word at most: what is named by a header or a model cannot be a variable."""
    names = sorted((n for n in setting_names(Tables) if n.count(ANY) < 2), key=len, reverse=True)
    return [(re.compile(variable_of(n).replace(ANY, "([A-Z0-9_]+?)")), n) for n in names]


def setting_names(annotation: Any, at: Name = ()) -> Iterator[Name]:  # noqa: ANN401
    """Yield the name of every setting of a table, with `ANY` for a word that is free."""
    if table := table_of(annotation):
        for field in fields(table):
            yield from setting_names(field.type, (*at, field.encode_name))
    elif pair := dict_of(annotation):
        yield from setting_names(pair[1], (*at, ANY))
    else:
        yield at


def is_list(annotation: Any) -> bool:  # noqa: ANN401
    """Return whether an annotation is of a list."""
    bare = _bare(annotation)
    return any(get_origin(part) is tuple for part in (bare, *get_args(bare)))


def one_of(annotation: Any) -> Any:  # noqa: ANN401
    """Return the type of one item, where an annotation is of a text or a list of such; else
    None."""
    parts = get_args(_bare(annotation))
    lists = [part for part in map(_bare, parts) if get_origin(part) is tuple]
    return get_args(lists[0])[0] if str in parts and lists else None


def _bare(annotation: Any) -> Any:  # noqa: ANN401
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


# The published JSON Schema of `vega.toml`, and what it says of one setting.


_FORMS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "a text",
    "array": "a list",
    "object": "a table",
}


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema 2020-12 of `vega.toml`, for editors and for other programs."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "vega.toml",
        **_without_null(plain(msgspec.json.schema(Tables))),
    }


def expected_of(annotation: Any) -> tuple[str, Any]:  # noqa: ANN401
    """Return the form of a setting's values in words, and an example."""
    schema = _without_null(msgspec.json.schema(annotation))
    return form_of(schema, schema.get("$defs", {})), next(iter(schema.get("examples", [])), None)


def form_of(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return a form in words, from its schema."""
    target = definitions.get(schema.get("$ref", "").rpartition("/")[2], schema)
    if "enum" in target:
        return f"one of {', '.join(target['enum'])}"
    return schema.get("title") or _FORMS[target["type"]]


def plain(value: object) -> Any:  # noqa: ANN401
    """Return a value as JSON would give it back: tables are dicts, lists are lists."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _without_null(schema: Json) -> Any:  # noqa: ANN401
    """TOML has no null: a value that may be None in code is one that need not be written."""
    if isinstance(schema, list):
        return [_without_null(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned: dict[str, Any] = {
        key: _without_null(part) for key, part in schema.items() if part is not None
    }
    if [*cleaned.get("anyOf", [])][1:] == [{"type": "null"}]:
        return cleaned.pop("anyOf")[0] | cleaned
    return cleaned


# Settings and variables that may hold a secret, and what is shown instead.


_SHORTEST = 8
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SAYS_SO = re.compile(
    r"(?:^|_)(?:APIKEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)S?(?:$|_)",
    re.IGNORECASE,
)
_SECRET: set[Name] = {
    ("journal", "url"),
    ("ledger", "url"),
    ("mcp", ANY, "url"),
    ("providers", ANY, "base_url"),
    ("providers", ANY, "headers", ANY),
    ("providers", ANY, "key"),
    ("providers", ANY, "proxy"),
    ("serve", "store"),
    ("telemetry", "otlp"),
    ("telemetry", "otlp_headers", ANY),
}


def is_secret(name: Name) -> bool:
    """Return whether the value of a setting may hold a secret."""
    return any(
        len(name) == len(secret) and all(s in {ANY, n} for n, s in zip(name, secret, strict=True))
        for secret in _SECRET
    )


def environment_variable(name: str) -> str:
    """Return the value of a variable; empty if it is not set."""
    return os.environ.get(name, "")


def environment_proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL, as other programs read it:
    `https_proxy`, `http_proxy` or `all_proxy`, also in capitals, but for this machine and the hosts
    in `no_proxy`. `http_proxy` counts in small letters only: a client of a web server may set the
    other. A proxy that speaks no HTTP is not ours to use."""
    parts = urlsplit(url)
    scheme, host = parts.scheme, parts.hostname or ""
    names = (f"{scheme}_proxy", "all_proxy")
    spelled = [name for one in names for name in (one, one.upper())]
    proxies = [environment_variable(name) for name in spelled if name != "HTTP_PROXY"]
    proxy = next(filter(None, proxies), None)
    excepted = environment_variable("no_proxy") or environment_variable("NO_PROXY")
    at_home = host in {"localhost", "::1"} or host.startswith("127.")
    try:
        port = parts.port or (443 if scheme == "https" else 80)
    except ValueError:
        port = 0  # whoever connects says what is wrong with it
    if proxy is None or at_home or any(_is_within(host, port, one) for one in excepted.split(",")):
        return None
    address = proxy if "://" in proxy else f"http://{proxy}"
    return address if address.startswith(("http://", "https://")) else None


_HOST_AND_PORT = re.compile(r"(?P<host>[^:\[\]]*|\[(?P<v6>[^\]]*)\]):(?P<port>\d+)")


def _is_within(host: str, port: int, excepted: str) -> bool:
    """`NO_PROXY` names hosts, domains with all below them, with a dot or `*.` before them or none,
    addresses and networks such as `10.0.0.0/8`, each with a port or for all; `*` is every host."""
    named = excepted.strip().lower()
    if with_port := _HOST_AND_PORT.fullmatch(named):
        if int(with_port["port"]) != port:
            return False
        named = with_port["v6"] or with_port["host"]
    named = named.removeprefix("[").removesuffix("]")
    if named == "*":
        return True
    domain = named.removeprefix("*").lstrip(".")
    if not domain:
        return False
    return host == domain or host.endswith(f".{domain}") or _is_in_network(host, domain)


def _is_in_network(host: str, network: str) -> bool:
    from ipaddress import ip_address, ip_network  # only a machine with a proxy needs it

    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


def environment_secrets(
    named: Iterable[str] = (), environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Values of variables that are `named` or whose names say that they are secret, with those
    names. What is shorter than a key is no secret: every text would hold it."""
    variables = os.environ if environment is None else environment
    chosen = {*named}
    return {
        value: name
        for name, value in variables.items()
        if len(value) >= _SHORTEST
        and _VARIABLE.fullmatch(name)
        and (name in chosen or _SAYS_SO.search(name))
    }


_HOSTS = re.compile(r"(?:[\w.%-]*|\[[\w.:%]*\])(?::\d+)?(?:,(?:[\w.%-]*|\[[\w.:%]*\])(?::\d+)?)*")


def hide_secrets_of_url(url: str) -> str:
    """Return the URL without what stands before the host, the query and the fragment. A password
    that holds a character it should not could end up anywhere before the last `@`, or in place of
    a port: then more is hidden."""
    try:
        urlsplit(url)
    except ValueError:
        return "…"
    scheme, _, rest = url.partition("://")
    _, at, place = rest.rpartition("@")
    host, slash, path = re.split(r"[?#]", place)[0].partition("/")
    if not _HOSTS.fullmatch(host):
        return f"{scheme}://…"
    tail = "…" if re.search(r"[?#]", place) else ""
    return f"{scheme}://{'…@' if at else ''}{host}{slash}{path}{tail}"


# Where a setting came from, and how to say that it is wrong there.
#
# Every message names the place, what came, what was expected, and what to write.


_LONGEST_SHOWN = 60


class SourceKind(StrEnum):
    """The later ones win."""

    DEFAULT = "default"
    USER = "user"
    PROJECT = "project"
    ENVIRONMENT = "environment"
    FLAG = "flag"


class SettingSource(Struct, frozen=True):
    """`place` is a file or a variable; `line` is 0 where it is not known."""

    kind: SourceKind
    place: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.place or self.kind}{f':{self.line}' if self.line else ''}"


def wrong_value_error(
    source: SettingSource,
    name: Name,
    value: Any,  # noqa: ANN401
    annotation: Any,  # noqa: ANN401
    problem: msgspec.ValidationError,
) -> SettingsError:
    """Return the error about a value that a setting does not take."""
    expected, example = expected_of(annotation)
    return SettingsError(
        f"{source}: {show_name(name)} is {_came(name, value, problem)}; expected {expected}; "
        f"write {_assignment(source, name, example)}"
    )


def not_a_table_error(source: SettingSource, name: Name) -> SettingsError:
    """Does not say what came: it may be a key in the wrong place."""
    return SettingsError(
        f"{source}: {show_name(name)} is not a table; "
        f"write [{show_name(name)}] and its settings below it"
    )


def bad_name_error(source: SettingSource, name: Name, annotation: Any) -> SettingsError:  # noqa: ANN401
    """Return the error about a free name that its table does not take."""
    expected, example = expected_of(annotation)
    return SettingsError(
        f"{source}: {name[-1]!r} in {show_name(name[:-1])} is not {expected}; "
        f"write it like {show_name((*name[:-1], str(example)))}"
    )


def toml_of(value: Json) -> str:
    """Return a value as TOML on one line; JSON's texts, numbers and lists are TOML's."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {toml_of(part)}' for key, part in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_of, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _came(name: Name, value: Any, problem: msgspec.ValidationError) -> str:  # noqa: ANN401
    if is_secret(name):
        return "something that is not shown here"
    if isinstance(value, list | dict):
        return f"wrong inside: {problem}"
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"


def _assignment(source: SettingSource, name: Name, example: Json) -> str:
    if source.kind is not SourceKind.ENVIRONMENT or isinstance(example, dict):
        return f"{show_name(name[-1:])} = {toml_of(example)}"
    text = ",".join(map(str, example)) if isinstance(example, list) else example
    return f"{variable_of(name)}='{text}'"  # in double quotes a shell reads $10 as $1 and a zero
