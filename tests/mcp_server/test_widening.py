"""A client that tries to get more than the server was started with is refused, and nothing is
called, read or spent."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.stage import AGENT, ASK, OUTSIDE, staged
from vegakit.lang import Manifest
from vegakit.money import Money
from vegakit.server import ServerPolicy

OUTSIDE_PATHS = [
    "../elsewhere/a.vega",
    "lib/../../elsewhere/a.vega",
    "link.vega",
    "linked/a.vega",
    "{folder}/elsewhere/a.vega",
    "{folder}/project/ask.vega",
    "~/a.vega",
    ".git/a.vega",
    "lib\\..\\..\\elsewhere\\a.vega",
    "a\0.vega",
    "ask.vgb",
    "src/a.txt",
    "lib",
    "no.vega",
]


def reading(clause: str, line: str, what: str = "fs::read") -> str:
    return f"program may [{what}] {clause}\n{AGENT}{line}\nprint(A <- text);\n"


FILE = 'let text = file::read("src/a.txt");'
WRITE = 'let text = "t"; file::write("src/b.txt", text);'
GET = 'let text = http::get("https://example.com/").body;'
POST = 'let text = http::post("https://example.com/", "x").body;'
EXEC = 'let text = exec("git log");'
TOOL = """
agent B {
    model fast  max_tokens 100
    tool peek(path: str) -> str "Reads." capabilities [fs::read] allowed_paths ["**"] {
        return file::read(path);
    }
}
print(B <- "look");
"""
WIDE_PROGRAMS = {
    "another model": 'agent A { model "openai:gpt-5"  max_tokens 9 }\nprint(A <- "x");',
    "another alias": 'agent A { model smart  max_tokens 9 }\nprint(A <- "x");',
    "other files": reading('allowed_paths ["etc/**"]', 'let text = file::read("etc/a");'),
    "all files": reading('allowed_paths ["**"]', FILE),
    "files left open": reading("", FILE),
    "more than a folder": reading('allowed_paths ["src/**", "out/**"]', FILE),
    "above the folder": reading('allowed_paths ["src/../**"]', FILE),
    "writing what may be read": reading('allowed_paths ["src/**"]', WRITE, "fs::write"),
    "a host": reading('allowed_hosts ["example.com"]', GET, "net::get"),
    "sending": reading('allowed_hosts ["example.com"]', POST, "net::post"),
    "a command": reading('allowed_commands ["git **"]', EXEC, "process::exec"),
    "a tool with more": TOOL,
    "a person": AGENT + 'if human::approve("ok?", 1s) { print(A <- "x"); }',
    "a server": 'use mcp "github" as gh\n' + AGENT + 'print(A <- "{gh.search()}");',
    "tools of a server": 'agent A { model fast  max_tokens 9  tools [mcp "github"] }\n'
    'print(A <- "x");',
    "a file of tools": 'agent A { model fast  max_tokens 9  tools [yaml "tools.yaml"] }\n'
    'print(A <- "x");',
    "a file above": 'use "../elsewhere/a.vega" as a\n' + ASK,
    "a file by a link": 'use "linked/a.vega" as a\n' + ASK,
    "money": 'agent A { model fast  max_tokens 3000 }\nfor i in range(1000) { print(A <- "{i}"); }',
    "money without end": AGENT + 'while true { print(A <- "x"); }',
    "money without price": "agent A { model fast }\nfn main(xs: [str]) { for x in xs { "
    "print(A <- x); } }",
}
KINDS = {
    "another model": "refused (agents)",
    "another alias": "refused (agents)",
    "tools of a server": "error[unknown-server]",
    "a file of tools": "refused (agents)",
    "a file above": "error[bad-import]",
    "a file by a link": "error[file-not-found]",
    "money": "refused (cost)",
    "money without end": "refused (unbounded)",
    "money without price": "refused (unbounded)",
}


@pytest.mark.parametrize("path", OUTSIDE_PATHS)
async def test_only_programs_of_the_project_are_opened(tmp_path: Path, path: str) -> None:
    """No way out of its folder, and no other file, for any tool; nothing of it is shown."""
    asked = path.format(folder=tmp_path)
    async with staged(tmp_path) as stage, stage.client() as call:
        for tool in ("check", "cost", "explain", "run"):
            said = await call(tool, path=asked)
            assert said.refused
            assert OUTSIDE not in said.text
        assert stage.model.requests == []


@pytest.mark.parametrize("name", WIDE_PROGRAMS)
async def test_a_program_that_wants_more_is_refused(tmp_path: Path, name: str) -> None:
    """Before its first call, with what to change."""
    async with staged(tmp_path) as stage, stage.client() as call:
        said = await call("run", source=WIDE_PROGRAMS[name])
        assert said.refused
        assert KINDS.get(name, "refused (rights)") in said.text
        assert OUTSIDE not in said.text
        assert stage.model.requests == []
        assert await stage.runtime.spent() == 0
        assert not (stage.root / "src/b.txt").exists()


HOST_CODE = """
from pathlib import Path

from vegakit import Agent, program, tool

Path("{canary}").write_text("loaded")

@tool(capabilities=["fs::read"])
def steal(path: str) -> str:
    "Reads."
    return Path(path).read_text()

a = Agent("a", model="fast", max_tokens=9, tools=[steal])

@program
def main() -> None:
    print(steal("/etc/passwd"))
"""


async def test_a_file_of_python_is_read_and_never_loaded(tmp_path: Path) -> None:
    """Its own functions do not run here, whatever it says."""
    async with staged(tmp_path, reads=("**",)) as stage, stage.client() as call:
        canary = stage.root / "canary"
        (stage.root / "lib/host.py").write_text(HOST_CODE.format(canary=canary))
        for tool in ("check", "cost", "explain", "run"):
            said = await call(tool, path="lib/host.py")
            assert "root:" not in said.text
        assert said.refused
        plain = "\n".join(line for line in HOST_CODE.splitlines() if not line.count("Path"))
        source = plain.replace('"Reads."', '"Reads."\n    return open(path).read()')
        said = await call("run", source=source, language="python")
        assert "refused (rights)" in said.text
        assert not canary.exists()
        assert stage.model.requests == []


@pytest.mark.parametrize(
    "more",
    [
        {"may": ["fs::write"]},
        {"allow": ["fs"]},
        {"root": "/"},
        {"model": "openai:gpt-5"},
        {"budget": "-$1"},
        {"budget": "all"},
        {"budget": 1000},
        {"reads": ["**"]},
        {"source": ASK, "path": "ask.vega"},
        {"path": "ask.vega\n"},
    ],
)
async def test_no_field_of_a_request_widens(tmp_path: Path, more: dict[str, Any]) -> None:
    """What the server does not know is refused, not passed over."""
    given = {"source": ASK, **more} if "path" not in more else more
    async with staged(tmp_path) as stage, stage.client() as call:
        assert (await call("run", **given)).refused
        assert stage.model.requests == []


async def test_a_budget_in_a_request_only_narrows(tmp_path: Path) -> None:
    """More than the server has is what the server has."""
    dear = "agent A { model fast  max_tokens 3000 }\n" + 'for i in range(99) { print(A <- "{i}"); }'
    async with staged(tmp_path) as stage, stage.client() as call:
        assert "refused (cost)" in (await call("run", source=dear, budget="$1000")).text
        assert "refused (cost)" in (await call("run", source=ASK, budget="$0.0001")).text
        assert not (await call("run", source=ASK, budget="$0.5")).refused


async def test_only_its_own_processes_are_seen_and_ended(tmp_path: Path) -> None:
    """Not others of its runtime, not the one that holds the wallet, not other runtimes."""

    async def other() -> None:
        await asyncio.Event().wait()

    async with staged(tmp_path) as stage, stage.client() as call:
        process = stage.runtime.spawn(other, name="other")
        assert (await call("ps")).page["processes"] == []
        for name in ("other", "../other", "mcp", "", ".", "mcp/other", "run-1/../../other"):
            assert (await call("kill", id=name)).refused
        for at in ("default", "1", str(tmp_path / "x.sock")):
            assert "--all-runtimes" in (await call("ps", at=at)).text
            assert "--all-runtimes" in (await call("kill", id="other", at=at)).text
        assert process.alive


async def test_who_reaches_all_runtimes_names_no_socket(tmp_path: Path) -> None:
    """A path could lead to a socket that is none of ours."""
    async with staged(tmp_path, all_runtimes=True) as stage, stage.client() as call:
        for at in ("/var/run/docker.sock", "../x", "docker.sock"):
            assert "no name and no OS pid" in (await call("ps", at=at)).text


async def test_an_unknown_tool_is_an_error(tmp_path: Path) -> None:
    """That names those there are."""
    async with staged(tmp_path) as stage, stage.client() as call:
        said = await call("exec", command="id")
        assert said.refused
        assert "there are: card, check" in said.text


def touching(**what: tuple[str, ...]) -> Manifest:
    plain: dict[str, Any] = dict.fromkeys(Manifest.__struct_fields__, ())
    plain.update(what, asks_people=False)
    return Manifest(**plain)


def test_what_may_be_read_is_not_what_may_be_written(tmp_path: Path) -> None:
    """And the other way round it is; so with hosts."""
    server_policy = ServerPolicy(
        tmp_path,
        Money(1),
        reads=("src/**",),
        writes=("out/**",),
        gets=("a.example.com",),
        posts=("b.example.com",),
    )
    inside = touching(reads=("src/a", "out/**"), writes=("out/x.txt",), gets=("b.example.com",))
    assert server_policy.outside(inside) == []
    assert server_policy.outside(touching(writes=("src/a",))) != []
    assert server_policy.outside(touching(posts=("a.example.com",))) != []
    assert server_policy.outside(touching(posts=("b.example.com",))) == []
    assert server_policy.outside(touching(reads=("**",))) != []
    assert server_policy.outside(touching(gets=("*",))) != []
    assert server_policy.outside(touching(commands=("*",))) != []
