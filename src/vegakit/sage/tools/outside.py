"""Tools that reach beyond the workspace: a person, a page of the web, the MCP servers that the
settings name, programs that the agent writes, and nodes of a folder that the person names.

| tool        | what it needs                                               | done again?    |
|-------------|-------------------------------------------------------------|----------------|
| ask         | somebody at a terminal, or who listens to the session       | it stays open  |
| fetch       | the right to get from that host, by a rule or from a person | after a crash  |
| those of    | what the settings say that the server does, else a person   | as each says   |
| MCP servers | is asked; only what `vega mcp accept` has accepted          |                |
| run_program | to be wanted (`--programs`): it loads the language          | by its journal |
| node        | to be wanted (`--nodes FOLDER`), and the node to touch      | after a crash  |
|             | nothing: one with capabilities is refused                   |                |
"""

import asyncio
import hashlib
import logging
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec import Struct

from vegakit.config import Settings
from vegakit.control import Question
from vegakit.errors import InvalidRuleError, StoreError, ToolFailed, UserError
from vegakit.host import current_process
from vegakit.ids import InterruptId
from vegakit.policy import (
    Denied,
    Fetch,
    Grant,
    Interrupt,
    InterruptKind,
    InterruptRequest,
    Replied,
    escape_text,
    parse_url,
)
from vegakit.ports import Tool
from vegakit.records import digest128, to_json
from vegakit.sage.tools.pages import read_page
from vegakit.sage.tools.workspace import TEXT, SageTool, Workspace, spec_of
from vegakit.sdk import Runtime
from vegakit.tools import ToolArgumentsError, ToolRights, current_effect

OnQuestion: TypeAlias = Callable[[Runtime, Question], object]
_GET = "net::get"
_HTTPS = 443
_LONGEST_QUESTION = 4_000
_A_DAY_MS = 86_400_000
"""The time that a question is open, as questions of programs are."""
_MOST_BYTES = 5_000_000
_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/xhtml", "+json", "+xml")
_LOG = logging.getLogger("vegakit")


class AskArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `ask`."""

    question: str


class FetchArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `fetch`."""

    url: str


class OutsideTools:
    """The tools of a session that reach beyond its workspace. Without `on_question` there is nobody
    to ask."""

    def __init__(
        self, workspace: Workspace, runtime: Runtime, on_question: OnQuestion | None
    ) -> None:
        self._workspace, self._runtime, self._on_question = workspace, runtime, on_question

    def tools(self) -> tuple[SageTool, ...]:
        """Return them, always in the same order."""
        return (
            SageTool(
                spec_of("fetch", _TOLD_FETCH, {"url": TEXT}, "url"),
                FetchArguments,
                self._fetch,
                _gets,
                idempotent=True,
                untrusted=True,
            ),
            SageTool(
                spec_of("ask", _TOLD_ASK, {"question": TEXT}, "question"),
                AskArguments,
                self._ask,
                lambda _: ToolRights(()),
                idempotent=True,
                timeout_ms=2 * _A_DAY_MS,
            ),
        )

    async def _ask(self, given: AskArguments) -> str:
        if self._on_question is None:
            raise ToolFailed(
                "nobody can be asked: there is no terminal. Decide by what you know and say what "
                "you took for granted; or, if that could do harm, end your answer with the question"
            )
        if not given.question.strip() or len(given.question) > _LONGEST_QUESTION:
            raise ToolFailed(f"a question has 1 to {_LONGEST_QUESTION:,} characters; write another")
        settled = await self._settled(given.question)
        if not isinstance(settled, Interrupt):
            raise ToolFailed(settled)
        if not isinstance(settled.answer, Replied) or not str(settled.answer.value).strip():
            return (
                "There was no answer. Decide by what you know, and say what you took for granted."
            )
        return f"The person answered: {settled.answer.value}"

    async def _settled(self, question: str) -> Interrupt | str:
        runtime, text = self._runtime, escape_text(question)
        owner = runtime.program.pid_of(current_process.get())
        name = InterruptId(f"{current_effect.get()}:{digest128(text)}")
        request = InterruptRequest(name, InterruptKind.CLARIFICATION, owner, text)
        return await runtime.approvals.questions.ask(request)

    async def _fetch(self, given: FetchArguments) -> str:
        from vegakit.tools import Http  # slow to load, and few sessions fetch

        http = Http(_gets(given).grant, max_bytes=_MOST_BYTES)
        answer = await http.fetch("GET", given.url)
        kind = (answer.header("content-type") or "text/plain").lower()
        if not any(part in kind for part in _TEXT_TYPES):
            raise ToolFailed(
                f"{answer.url} is {kind} ({len(answer.body):,} bytes), which is no text; fetch a "
                "page about it, or ask the person to put it into the workspace"
            )
        text = await asyncio.to_thread(read_page, answer.body, kind)
        return f"{answer.url}: status {answer.status}\n{await self._workspace.capped('page', text)}"


def _gets(given: FetchArguments) -> ToolRights:
    wanted = parse_url("GET", given.url)
    if isinstance(wanted, Denied):
        raise ToolArgumentsError(wanted.reason)
    try:
        return ToolRights((wanted,), Grant((_GET,), hosts=(_rule(wanted),)))
    except InvalidRuleError as wrong:
        raise ToolArgumentsError(str(wrong)) from None


def _rule(wanted: Fetch) -> str:
    host = wanted.host.lower()
    return host if wanted.port == _HTTPS else f"{host}:{wanted.port}"


# MCP servers.


async def mcp_tools(workspace: Workspace, runtime: Runtime, settings: Settings) -> tuple[Tool, ...]:
    """Return the accepted tools of the servers that the settings name. A server whose tools nobody
    accepted is left out, and the log says what to type; none is started before its first call."""
    found: list[Tool] = []
    runtime.mcp.settings = settings
    for name in sorted(settings.mcp):
        try:
            found += await runtime.mcp.tools(name)
        except (UserError, StoreError) as refused:
            _LOG.warning("%s", refused)
    return tuple(cast("Tool", _RecordedTool(tool, workspace)) for tool in found)


class _RecordedTool:
    """A tool of a server, whose folder may be in the workspace: what it changes there is the
    turn's, so that undo takes it back."""

    def __init__(self, inner: Tool, workspace: Workspace) -> None:
        self._inner, self._workspace = inner, workspace

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._inner, name)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        """Call the tool within a window of undo."""
        async with self._workspace.changing():
            return await self._inner.call(arguments, deps)


# Programs that the agent writes.


class CardArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `program_card`: none."""


def program_tools(folder: Path, model: str) -> tuple[Tool, ...]:
    """Return the tool that runs programs of the agent, which may read the workspace and ask agents
    on this model, and the one that says how to write them: the whole language in every request
    would cost more than it is used."""
    from vegakit.host import run_program  # loads the language, so only where it is wanted
    from vegakit.lang import card
    from vegakit.program import ProgramRights

    async def read_card(_: CardArguments) -> str:
        return card("python")

    may = ProgramRights(("fs::read",), paths=("**",))
    runs = run_program(may=may, models=(model,), root=folder, languages=("python",), teach=False)
    about = SageTool(
        spec_of("program_card", _TOLD_CARD, {}, ""),
        CardArguments,
        read_card,
        lambda _: ToolRights(()),
        idempotent=True,
    )
    return about, cast("Tool", runs)


# Nodes: small functions under a contract.


class NodeArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `node`."""

    node: str = ""
    inputs: dict[str, Any] = {}


def check_nodes(folder: Path, name: str) -> str:
    """Return the name of the folder of nodes of a new session, if there is any. Refuse one from
    which nothing can be called here, before anything is spent."""
    if not name:
        return name
    place = _place_of_nodes(folder, name)
    if not place.is_dir():
        raise _no_folder(folder, name)
    from vegakit.vesper import NodeRepository  # slow to load, and few sessions have nodes

    if not (_rules_in(place) and NodeRepository.at(place).nodes):
        named = shlex.quote(name)
        raise UserError(
            f"{name} has no node that can be called, so no session is begun; to see what is in it, "
            f"type: vega node check {named}"
        )
    return name


def _place_of_nodes(folder: Path, name: str) -> Path:
    place = (folder / name).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise _no_folder(folder, name)
    return place


def _no_folder(folder: Path, name: str) -> UserError:
    return UserError(
        f"{name} is no folder in {folder}, so no nodes are called from it; type for example: "
        "vega code --nodes nodes"
    )


def _rules_in(place: Path) -> dict[str, bytes]:
    """Return digests of the files of nodes in a folder, by their paths there."""
    return {
        str(path.relative_to(place)): hashlib.blake2b(path.read_bytes()).digest()
        for path in sorted(place.rglob("*.vsp"))
        if path.is_file()
    }


def node_tool(folder: Path, name: str, notes: list[str] | None = None) -> SageTool:
    """Return the tool that calls the nodes of a folder. The interpreter runs them, so nothing that
    an agent writes there becomes code; and one that needs a capability is refused, since whoever
    named the folder did not say what its files may touch. Figures of rules that were changed since
    are given with that, also to the person by `notes`: the agent may have written the rule."""
    place = _place_of_nodes(folder, name)
    began = _rules_in(place)

    def changed() -> str:
        now = _rules_in(place)
        names = sorted({path for path, _ in began.items() ^ now.items()})
        if not names:
            return ""
        told = (
            f"rules in {name} were changed since this session began or was resumed, by the agent, "
            f"a command or the person: {', '.join(names)}; figures of node may differ from before"
        )
        if notes is not None and told not in notes:
            notes.append(told)
        return f"\nnote: {told}: say so with them"

    async def call(given: NodeArguments) -> str:
        from vegakit.vesper import (  # slow to load, and few sessions have nodes
            NodeRepository,
            callable_node,
            capabilities_of,
            outputs_of,
            show_signature,
        )

        found = NodeRepository.at(place)
        if not given.node:
            lines = [
                f"{show_signature(one.program)}: {one.program.intent}"
                for one in found.nodes.values()
                if not capabilities_of(one)
            ]
            return "\n".join([*lines, *(f"cannot be used: {error}" for error in found.wrong)])
        node = found.find(given.node)
        if needed := capabilities_of(node):
            raise ToolFailed(
                f"{given.node} needs {', '.join(needed)}; only nodes that touch nothing are called "
                "here: ask the person to run it"
            )
        run = callable_node(node, path="direct", repository=found)
        figures = to_json(outputs_of(run.node, await run.answer(given.inputs))).decode()
        return figures + await asyncio.to_thread(changed)

    return SageTool(
        spec_of("node", _TOLD_NODE, {"node": TEXT, "inputs": {"type": "object"}}, ""),
        NodeArguments,
        call,
        lambda _: ToolRights(()),
        idempotent=True,
        untrusted=True,
    )


_TOLD_NODE = (
    "Run a node, a checked business rule, by its id with its inputs; without an id, list them with "
    "their inputs. Use it for figures instead of working them out. Decimals are texts."
)
_TOLD_CARD = "Say how programs for run_program are written; call it before the first one."
_TOLD_FETCH = "Get a web page or API by its URL, as text. A person may have to allow the host."
_TOLD_ASK = (
    "Ask the person one question and wait for the answer; only for what you cannot find out and "
    "that changes what you do."
)
