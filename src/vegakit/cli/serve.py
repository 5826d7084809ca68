"""`vega serve` and `vega token`: a kernel for workers in any language, and who may call it.

Both work on the store that `serve.store` names, so that a token is made beside a server that runs,
or before there is one.
"""

import argparse
import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from vegakit.cli.look import (
    PIPE,
    Cell,
    Column,
    Look,
    Sign,
    Tone,
    duration,
    look_of,
    moment,
    one_line,
    print_json,
    table,
)
from vegakit.cli.main import JSON, Argument, CommandParser, declare
from vegakit.concurrency import SteadyClock
from vegakit.config import LogFormat, Settings, SourceKind, load, parse_duration_ms
from vegakit.errors import SettingsError, UserError
from vegakit.money import Dollars, Money, dollars, format_money
from vegakit.server import (
    DOORS,
    OpenedServer,
    RuntimeAgents,
    ServerPlan,
    TlsFiles,
    TokenRecord,
    TokenRole,
    Tokens,
    check_plan,
    run_server,
)
from vegakit.store import open_tenants, show_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.server import CodePlan, CodeSessions

T = TypeVar("T")

# `vega serve`: from flags and settings to a server, and what it says of itself.


_LONGEST_MS = 3_653 * 86_400_000
_LONGEST_DRAIN_MS = 86_400_000
_LAST_PORT = 65_535
_EXAMPLE = "vega token create --tenant acme --user ann"


def serve_command(arguments: Sequence[str]) -> int:
    """Run `vega serve`."""
    parser = _serve_parser()
    chosen = parser.parse_args(arguments)
    flags = {f"serve.{door.port}": getattr(chosen, door.port) for door in DOORS.values()}
    settings = load(
        {
            "serve.host": chosen.host,
            "serve.store": chosen.store,
            "serve.drain": chosen.drain,
            "serve.bus": chosen.bus,
            "telemetry.logs": "json" if chosen.json_logs else None,
            **flags,
        }
    )
    plan = ServerPlan(
        settings.kernel_place,
        settings.serve.host,
        {name: getattr(settings.serve, DOORS[name].port) for name in chosen.doors},
        settings.drain_ms,
        _tls(parser, chosen),
        is_plain=chosen.no_tls,
        bus=settings.serve.bus or ":memory:",
    )
    check_plan(plan)
    hint = _EXAMPLE + _store_flag(settings)
    _check_code(chosen)
    asyncio.run(_serve_with_agents(settings, plan, hint, chosen))
    return 0


def _check_code(chosen: argparse.Namespace) -> None:
    """Make of `--code` what a server is to do; a folder gets the name that requests use."""
    chosen.code_plan = None
    if not chosen.code:
        if chosen.code_budget is not None:
            raise UserError("--code-budget is for the coding agent; add: --code TENANT=FOLDER")
        return
    if "http" not in chosen.doors:
        raise UserError("the coding agent is served over HTTP; add that: --doors http")
    if chosen.code_budget is None:
        raise UserError("say what each session may spend: --code-budget '$1'")
    from vegakit.sage import SageMode
    from vegakit.server import CodePlan

    folders: dict[str, dict[str, Path]] = {}
    for given in chosen.code:
        tenant, _, text = given.partition("=")
        folder = Path(text).resolve()
        if not tenant or not text or not folder.is_dir():
            raise UserError(f"--code {given}: name a tenant and a folder, as in acme=/srv/shop")
        mine = folders.setdefault(tenant, {})
        if folder.name in mine:
            raise UserError(f"--code {given}: {tenant} has a folder {folder.name} already")
        mine[folder.name] = folder
    budget = str(Dollars.of_nanos(_amount(chosen.code_budget)))
    chosen.code_plan = CodePlan(folders, budget, SageMode(chosen.code_mode))


def _store_flag(settings: Settings) -> str:
    """Return what a command needs to find this store from any folder; nothing for the usual one. A
    URL that settings name is not repeated, and one of a flag only without its secrets: what is
    printed ends up in logs."""
    place, source = settings.kernel_place, settings.sources["serve.store"]
    is_usual = source.kind is SourceKind.DEFAULT
    if is_usual or ("://" in place and source.kind is not SourceKind.FLAG):
        return ""
    return f" --store {shlex.quote(show_place(place))}"


async def _serve_with_agents(
    settings: Settings, plan: ServerPlan, hint: str, chosen: argparse.Namespace
) -> None:
    """Serve; where models are granted, agents that requests define are run here."""
    if not chosen.may_ask:
        if chosen.tenant_budget is not None:
            raise UserError(
                "--tenant-budget is for agents that run here, and none may; name a model for them: "
                "--may-ask MODEL"
            )
        await _serve(settings, plan, hint, code=chosen.code_plan)
        return
    from vegakit.sdk import Runtime, runtime_arguments

    if chosen.tenant_budget is None:
        raise UserError(
            "agents that run here spend money; say how much those of each tenant may: "
            "--tenant-budget '$5/day'"
        )
    # What was answered is in the kernel's store, and so is what was spent, unless the settings name
    # a ledger: a budget holds for all servers, and after a restart. The caps are the tenants'.
    has_own = settings.ledger_place != settings.journal_place
    ledger = settings.ledger_place if has_own else plan.store
    options: Any = {"journal": None, "observable": False, "budget": None, "ledger": ledger}
    parts = runtime_arguments(settings, options)
    for model in chosen.may_ask:
        parts["models"](model)  # one that nobody can ask is told now
    async with Runtime(**parts) as rt:
        with rt.budget(chosen.tenant_budget, "tenants"):
            pass  # one that is no budget is told now
        agents = RuntimeAgents(rt, models=chosen.may_ask, tenant_budget=chosen.tenant_budget)
        said = f"by {', '.join(chosen.may_ask)}; each tenant {chosen.tenant_budget}"
        await _serve(settings, plan, hint, agents, said, code=chosen.code_plan)


def _serve_parser() -> CommandParser:
    parser = CommandParser(
        prog="vega serve",
        description="Serve a kernel: processes with quotas and a fair queue, questions to people, "
        "sessions through pipelines, and events, for workers in any language. Ctrl-C and SIGTERM "
        "let open calls finish; a second one ends at once.",
        arguments=[
            Argument(
                "--doors",
                type=_doors,
                default=["http"],
                metavar=",".join(DOORS),
                help="the protocols to serve; http if not given",
            ),
            Argument(
                "--store", metavar="PLACE", help="a file or postgresql://…, which servers may share"
            ),
            Argument("--host", help="the address to listen on; 127.0.0.1 if nothing says else"),
        ],
    )
    for port in dict.fromkeys(door.port for door in DOORS.values()):
        names = " and ".join(name for name, door in DOORS.items() if door.port == port)
        parser.add_argument(
            f"--{port.replace('_', '-')}",
            dest=port,
            type=_port,
            metavar="PORT",
            help=f"the port for {names}; 0 for a free one",
        )
    declare(
        parser,
        [
            Argument(
                "--drain",
                type=_drain,
                metavar="10s",
                help="how long open calls may take when the server ends",
            ),
            Argument(
                "--bus",
                metavar="redis://…",
                help="a Redis that servers share; else each has its own bus",
            ),
            Argument(
                "--may-ask",
                metavar="MODEL",
                action="append",
                default=[],
                help="a model for agents that requests define; without one, only workers run "
                "agents",
            ),
            Argument(
                "--tenant-budget",
                metavar="'$5/day'",
                help="what the agents of each tenant may spend here",
            ),
            Argument(
                "--code",
                metavar="TENANT=FOLDER",
                action="append",
                default=[],
                help="a folder that the coding agent works in for a tenant; none if not given",
            ),
            Argument(
                "--code-budget",
                metavar="'$1'",
                help="what each session of the coding agent may spend",
            ),
            Argument(
                "--code-mode",
                choices=("plan", "ask", "auto"),
                default="ask",
                help="the freest mode that a request may choose; ask if not given",
            ),
            Argument("--certificate", metavar="FILE", help="serve with TLS, by this certificate"),
            Argument("--key", metavar="FILE", help="the key of the certificate"),
            Argument(
                "--client-ca",
                metavar="FILE",
                help="let in only clients with a certificate of this CA",
            ),
            Argument(
                "--no-tls",
                action="store_true",
                help="beyond this machine, behind a proxy that speaks TLS",
            ),
            Argument(
                "--json-logs", action="store_true", help="log to stderr as JSON, a line a record"
            ),
        ],
    )
    return parser


def _port(text: str) -> str:
    if not text.isascii() or not text.isdecimal() or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; write one from 0 to {_LAST_PORT}")
    return text


def _drain(text: str) -> str:
    try:
        if parse_duration_ms(text) <= _LONGEST_DRAIN_MS:
            return text
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    raise argparse.ArgumentTypeError(f"{text} is more than a day; open calls end within a minute")


def _doors(text: str) -> list[str]:
    names = [*dict.fromkeys(text.split(","))]
    for name in names:
        if name not in DOORS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(DOORS)}")
    return names


def _tls(parser: CommandParser, chosen: argparse.Namespace) -> TlsFiles | None:
    if not (chosen.certificate or chosen.key or chosen.client_ca):
        return None
    if not (chosen.certificate and chosen.key):
        parser.error("a server with TLS needs --certificate FILE and --key FILE")
    return TlsFiles(chosen.certificate, chosen.key, chosen.client_ca or "")


async def _serve(
    settings: Settings,
    plan: ServerPlan,
    hint: str,
    agents: RuntimeAgents | None = None,
    said_of_agents: str = "",
    code: "CodePlan | None" = None,
) -> None:
    is_json = settings.telemetry.logs is LogFormat.JSON
    logs = _log_output(settings)
    logs.open()
    look = look_of(sys.stdout)

    def tell_open(server: OpenedServer) -> None:
        if not is_json:  # whoever reads lines of JSON has one that says so
            print(render_server(server, plan, hint, look, said_of_agents, code), flush=True)

    def tell_stop() -> None:
        if not is_json and look.width is not None:
            drain = duration(plan.drain_ms)
            print(f"\nending: open calls have {drain}; Ctrl-C again ends at once", flush=True)

    try:
        await run_server(plan, tell_open, tell_stop, agents, _sessions(code))
    finally:
        logs.close()


def _sessions(code: "CodePlan | None") -> "CodeSessions | None":
    if code is None:
        return None
    from vegakit.server import CodeSessions

    return CodeSessions(code)


def _log_output(settings: Settings) -> Any:  # noqa: ANN401  (of a module that is loaded here)
    """Return the log of the server: as the settings say, else of what is wrong, as text."""
    from vegakit.telemetry import LogFormatter, LogOutput

    form = settings.telemetry.logs
    level = "warning" if form is None else settings.telemetry.level
    return LogOutput(LogFormatter(json=form is LogFormat.JSON), level)


def render_server(
    server: OpenedServer,
    plan: ServerPlan,
    hint: str,
    look: Look = PIPE,
    agents: str = "",
    code: "CodePlan | None" = None,
) -> str:
    """Return what a server says when it listens: where, on which store, and what to type next."""
    urls = [url for name, url in server.urls.items() if name != "mcp" or "http" not in server.urls]
    store = show_place(plan.store)
    if look.width is not None:
        store = store.replace(str(Path.home()), "~")
    facts = [("store", store)]
    if plan.bus != ":memory:":
        facts.append(("bus", show_place(plan.bus)))
    if agents:
        facts.append(("runs", f"agents {agents}"))
    if code is not None:
        named = [f"{folder} of {who}" for who, mine in code.folders.items() for folder in mine]
        facts.append(("code", f"{', '.join(named)}; each session {code.budget}, mode {code.mode}"))
    if plan.tls is not None:
        asked = "; clients need a certificate, too" if plan.tls.client_ca else ""
        facts.append(("TLS", f"by {plan.tls.certificate}{asked}"))
    if "mcp" in server.urls:
        facts.append(("tools", f"for MCP clients: {server.urls['mcp']}"))
    if "http" in server.urls:
        facts.append(("API", f"{server.urls['http']}/openapi.json"))
    facts.append(("token", hint))
    if not server.has_tokens:
        facts.append(("", "nobody has a token yet: type this in another terminal"))
    facts.append(("end", f"Ctrl-C or SIGTERM; open calls have {duration(plan.drain_ms)}"))
    lines = look.marked(Sign.DONE, Tone.OK, f"serving the kernel at {', '.join(urls)}")
    for name, text in facts:
        first, *more = look.fold(text, " " * 9, f"  {name:5}  ")
        tone = {"token": Tone.STRONG, "": Tone.ASK}.get(name, Tone.PLAIN)
        lines += [first[:9] + look.paint(first[9:], tone), *more]
    return "\n".join(lines)


# `vega token`: who may call a kernel, on the same store.


def token_command(arguments: Sequence[str]) -> int:
    """Run `vega token`."""
    chosen = _token_parser().parse_args(arguments)
    settings = load({"serve.store": chosen.store})
    place, chosen.store_flag = settings.kernel_place, _store_flag(settings)
    if place == ":memory:":
        raise UserError(
            "a token in memory is gone with this command; name the store of your server: "
            "--store kernel.db"
        )
    return asyncio.run(_with_tokens(place, lambda tokens: chosen.run(tokens, chosen)))


async def _with_tokens(place: str, work: Callable[[Tokens], Awaitable[T]]) -> T:
    store = open_tenants(place)
    try:
        return await work(Tokens(store, SteadyClock()))
    finally:
        await store.aclose()


def _token_parser() -> CommandParser:
    shared = CommandParser(
        add_help=False,
        arguments=[
            Argument("--store", metavar="PLACE", help="that of the server; as in vega serve"),
            JSON,
        ],
    )
    parser = CommandParser(
        prog="vega token",
        description="Say who may call a kernel. A token is of a tenant, a user and a role: a viewer"
        " reads, a worker also acts, an operator also answers what people are asked; an admin says"
        " what each tenant may spend.",
    )
    actions = parser.add_subparsers(required=True, metavar="create | list | revoke")
    actions.add_parser(
        "create",
        parents=[shared],
        help="make a token, and print it once",
        arguments=[
            Argument("--tenant", required=True, help="whose processes it is for"),
            Argument("--user", required=True, help="who will call with it"),
            Argument(
                "--role",
                choices=[role.value for role in TokenRole],
                default=TokenRole.WORKER.value,
                help="worker if not given",
            ),
            Argument(
                "--expires",
                type=_valid_ms,
                metavar="30d",
                help="good for so long; else until revoked",
            ),
            Argument(
                "--wallet",
                type=_amount,
                metavar="'$5'",
                help="what agents of the server may spend for its calls, in all; else as the "
                "tenant's",
            ),
        ],
        run=_create,
    )
    actions.add_parser(
        "list",
        parents=[shared],
        help="show tokens, without their secret",
        arguments=[Argument("--tenant", help="of this tenant only")],
        run=_list,
    )
    actions.add_parser(
        "revoke",
        parents=[shared],
        help="refuse a token from now on",
        arguments=[Argument("id", help="as vega token list shows it")],
        run=_revoke,
    )
    return parser


def _valid_ms(text: str) -> int:
    try:
        valid_ms = parse_duration_ms(text)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if valid_ms > _LONGEST_MS:
        raise argparse.ArgumentTypeError(f"{text} is more than ten years; leave it out for ever")
    return valid_ms


def _amount(text: str) -> Money:
    try:
        amount = dollars(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if amount <= 0:
        raise argparse.ArgumentTypeError(f"more than nothing, as in '$5'; got {text!r}")
    return Money(amount)


async def _create(tokens: Tokens, chosen: argparse.Namespace) -> int:
    role = TokenRole(chosen.role)
    token = await tokens.create(
        chosen.tenant, chosen.user, role, valid_ms=chosen.expires, wallet=chosen.wallet
    )
    key = token.split("_")[1]
    (record,) = [one for one in await tokens.list(chosen.tenant) if one.id == key]
    if chosen.json:
        print_json({"token": token, **_shown(record)})
        return 0
    # The token alone on stdout, so that a script can take it from there.
    look = look_of(sys.stderr)
    good = _good(record, record.created_ms).text
    told = f"token {key} of {one_line(record.user)}, {record.role} of {one_line(record.tenant)}"
    if record.wallet is not None:
        told += f", with {format_money(record.wallet)} to spend"
    print(*look.marked(Sign.DONE, Tone.OK, f"{told}, good {good}"), sep="\n", file=sys.stderr)
    print(
        *look.fold("shown this once; send it as: Authorization: Bearer TOKEN", "  ", "  "),
        sep="\n",
        file=sys.stderr,
        flush=True,
    )
    print(token)
    return 0


async def _list(tokens: Tokens, chosen: argparse.Namespace) -> int:
    records = await tokens.list(chosen.tenant)
    if chosen.json:
        print_json([_shown(record) for record in records])
    elif records:
        print(render_tokens(records, SteadyClock().now(), look_of(sys.stdout)))
    else:
        whose = f" of {one_line(chosen.tenant)}" if chosen.tenant else ""
        print(f"There is no token{whose}. To make one, type: {_EXAMPLE}{chosen.store_flag}")
    return 0


async def _revoke(tokens: Tokens, chosen: argparse.Namespace) -> int:
    # Somebody may have only the token itself at hand.
    key = chosen.id.split("_")[1] if chosen.id.startswith("vega_") else chosen.id
    if not await tokens.revoke(key):
        raise UserError(
            f"there is no token {one_line(key)} that is good; to see all, type: "
            f"vega token list{chosen.store_flag}"
        )
    if chosen.json:
        print_json({"revoked": key})
    else:
        look = look_of(sys.stdout)
        told = (
            f"revoked {key}: calls are refused at once; open streams and calls that wait end "
            "within 15 s"
        )
        print(*look.marked(Sign.DONE, Tone.OK, told), sep="\n")
    return 0


def _shown(record: TokenRecord) -> dict[str, Any]:
    """Return what a program may see of a token: not even the digest of its secret."""
    return {
        "id": record.id,
        "tenant": record.tenant,
        "user": record.user,
        "role": record.role,
        "created_ms": record.created_ms,
        "expires_ms": record.expires_ms,
        "revoked_ms": record.revoked_ms,
        "wallet_usd": None if record.wallet is None else float(Dollars.of_nanos(record.wallet).usd),
    }


def render_tokens(records: Sequence[TokenRecord], now_ms: int, look: Look = PIPE) -> str:
    """Return tokens as a table, without their secrets."""
    columns = (
        Column("Id"),
        Column("Tenant", name=True),
        Column("User", name=True),
        Column("Role"),
        Column("Wallet"),
        Column("Made", drop=1),
        Column("Good"),
    )
    rows = [
        (
            record.id,
            one_line(record.tenant),
            one_line(record.user),
            record.role.value,
            "–" if record.wallet is None else format_money(record.wallet),
            moment(record.created_ms),
            _good(record, now_ms),
        )
        for record in records
    ]
    return table(columns, rows, look)


def _good(record: TokenRecord, now_ms: int) -> Cell:
    if record.revoked_ms is not None:
        return Cell(f"revoked {moment(record.revoked_ms)}", Tone.BAD)
    if record.expires_ms is None:
        return Cell("until revoked", Tone.OK)
    if now_ms >= record.expires_ms:
        return Cell(f"expired {moment(record.expires_ms)}", Tone.BAD)
    return Cell(f"until {moment(record.expires_ms)}", Tone.OK)
