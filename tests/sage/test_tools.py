"""The tools of the coding agent, called by `vega code` as a model calls them."""

import asyncio
import json
import os
import re
import stat
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S, shell_until, until
from tests.sage.scene import Scene, calls, scene
from vegakit.control import Question
from vegakit.sage import SageAgent, SageEnd, SageToolBegan
from vegakit.sdk import Runtime
from vegakit.testing import ProviderAnswer, ProviderRequest
from vegakit.tools import SandboxSpec

SOURCE = "def f():\n    return 1\n"


def text_of(result: dict[str, Any]) -> str:
    content = result["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def said(it: Scene) -> list[str]:
    """The results of all calls, as the model reads them last."""
    return [text_of(result) for result in it.results(it.bodies[-1])]


def tree(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(folder)): path.read_text() for path in files}


# Edits and patches.

PATCH = """*** Begin Patch
*** Update File: a.py
*** Move to: new/b.py
@@ def f():
-    return 1
+    return 2
*** Add File: c.py
+x = 1
*** Delete File: d.py
*** End Patch
"""


def test_several_edits_are_one_call(tmp_path: Path) -> None:
    edits = [{"old": "f()", "new": "g()"}, {"old": "return 1", "new": "return 2"}]
    wrong = [*edits, {"old": "not there", "new": ""}]
    made = [
        calls(("edit", {"path": "a.py", "edits": wrong})),
        calls(("edit", {"path": "a.py", "edits": edits})),
        calls(("edit", {"path": "a.py", "edits": edits, "old": "x", "new": "y"})),
    ]
    with scene(tmp_path, [*made, "Done."]) as it:
        (it.folder / "a.py").write_text(SOURCE)
        it.events("-p", "Edit.")
        refused, done, unclear = said(it)
        assert "edit 3 of 3" in refused
        assert done == "edited a.py at line 1, 2"
        assert "give one of the two" in unclear
        assert (it.folder / "a.py").read_text() == "def g():\n    return 2\n"


def test_a_patch_changes_several_files_and_is_undone(tmp_path: Path) -> None:
    with scene(tmp_path, [calls(("apply_patch", {"patch": PATCH})), "Done."]) as it:
        (it.folder / "a.py").write_text(SOURCE)
        (it.folder / "a.py").chmod(0o755)
        (it.folder / "d.py").write_text("gone\n")
        before = tree(it.folder)
        it.events("-p", "Patch.")
        edited = SOURCE.replace("1", "2")
        assert tree(it.folder) == {"new/b.py": edited, "c.py": "x = 1\n"}
        assert stat.S_IMODE((it.folder / "new/b.py").stat().st_mode) == 0o755
        assert said(it) == [
            "edited a.py at line 2; moved a.py to new/b.py\nadded c.py\ndeleted d.py: 1 line"
        ]
        assert it.vega(command="undo").returncode == 0
        assert tree(it.folder) == before


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("-    return 1", "-    return 3", "read it again"),
        ("Delete File: d.py", "Delete File: e.py", "there is no 'e.py'"),
        ("Add File: c.py", "Add File: taken.py", "taken.py is there already"),
        ("Move to: new/b.py", "Move to: taken.py", "taken.py is there already"),
        (
            "Add File: c.py",
            "Update File: taken.py\n-taken",
            "read-only; chmod .*Nothing was changed",
        ),
        ("Add File: c.py", "Add File: ../c.py", "CapabilityDenied"),
        ("Add File: c.py", "Add File: .git/hooks/pre-commit", "out of reach"),
        ("Add File: c.py", "Add File c.py", "line 7 of the patch"),
    ],
)
def test_a_patch_is_made_whole_or_not_at_all(old: str, new: str, told: str, tmp_path: Path) -> None:
    patch = PATCH.replace(old, new)
    assert patch != PATCH
    with scene(tmp_path, [calls(("apply_patch", {"patch": patch})), "Done."]) as it:
        (it.folder / "a.py").write_text(SOURCE)
        (it.folder / "d.py").write_text("gone\n")
        (it.folder / "taken.py").write_text("taken\n")
        (it.folder / "taken.py").chmod(0o444)
        before = tree(it.folder)
        it.events("-p", "Patch.")
        assert re.search(told, said(it)[0])
        assert tree(it.folder) == before


def test_a_patch_needs_the_right_to_write(tmp_path: Path) -> None:
    with scene(tmp_path, [calls(("apply_patch", {"patch": PATCH})), "Done."]) as it:
        (it.folder / "a.py").write_text(SOURCE)
        (it.folder / "d.py").write_text("gone\n")
        before = tree(it.folder)
        it.events("-p", "Patch.", "--mode", "plan")
        assert "read-only" in said(it)[0]
        assert tree(it.folder) == before


# Git.


def repository(it: Scene) -> None:
    (it.folder / "a.py").write_text(SOURCE)
    commands = (
        "git init -q -b main; git config user.name Ann; git config user.email ann@example.com; "
        "git add a.py; git commit -qm first; git branch other"
    )
    at_terminal(it, commands)


def at_terminal(it: Scene, commands: str) -> str:
    ran = subprocess.run(
        ["sh", "-c", commands], cwd=it.folder, check=True, capture_output=True, text=True
    )
    return ran.stdout


def git(*args: str) -> tuple[str, dict[str, Any]]:
    return ("git", {"args": [*args]})


def test_git_looks_and_commits(tmp_path: Path) -> None:
    """In a sandbox, and a turn can be taken back with its commits."""
    edit = ("edit", {"path": "a.py", "old": "return 1", "new": "return 2"})
    steps = [
        edit,
        git("status", "--short"),
        git("diff", "a.py"),
        git("add", "-A"),
        git("commit", "-m", "Return 2"),
        git("log", "--format=%an %s"),
        git("show", "--stat"),
        git("blame", "a.py"),
        git("switch", "other"),
        git("branch", "--list"),
    ]
    with scene(tmp_path, [*map(calls, steps), "Done."]) as it:
        repository(it)
        (it.folder / ".env").write_text("KEY=very-secret\n")
        before = at_terminal(it, "git rev-parse HEAD; git status --short")
        it.events("-p", "Commit.")
        _, status, diff, _, commit, log, show, blame, switch, branches = said(it)
        assert " M a.py" in status
        assert ".env" not in status + show
        assert "very-secret" not in json.dumps(it.bodies)
        assert "+    return 2" in diff
        assert "exit code 0" in commit
        assert "Ann Return 2\nAnn first" in log
        assert "a.py | 2 +-" in show
        assert "Ann" in blame
        assert "exit code 0" in switch
        assert "* other" in branches
        assert (it.folder / "a.py").read_text() == SOURCE
        assert at_terminal(it, "git log --format=%s main") == "Return 2\nfirst\n"
        assert it.vega(command="undo").returncode == 0
        assert at_terminal(it, "git rev-parse HEAD; git status --short") == before


REFUSED = [
    ("push",),
    ("config", "user.name", "x"),
    ("-c", "core.pager=touch ran", "log"),
    ("diff", "--no-index", "/dev/null", ".env"),
    ("diff", "--ext"),
    ("log", "--output=made"),
    ("commit", "-a", "-m", "x"),
    ("commit", "-m", "x", "a.py"),
    ("branch", "--edit-description"),
    ("add", "-f", ".env"),
    ("stash", "-u"),
    ("--exec-path=.", "status"),
    (),
]


def test_git_refuses_what_runs_or_reaches_more(tmp_path: Path) -> None:
    with scene(tmp_path, [calls(*(git(*args) for args in REFUSED)), "Done."]) as it:
        repository(it)
        it.events("-p", "Go.")
        assert len(said(it)) == len(REFUSED)
        assert all("is not run here" in one for one in said(it)), said(it)
        assert set(tree(it.folder)) == {"a.py"}


@pytest.mark.parametrize("mode", ["read", "write"])
def test_git_runs_no_program_of_the_repository(mode: str, tmp_path: Path) -> None:
    looks = [git("status"), git("diff"), git("log", "-p"), git("show")]
    changes = [git("add", "a.py"), git("commit", "-m", "x"), git("switch", "other")]
    made = looks if mode == "read" else changes
    with scene(tmp_path, [*map(calls, made), "Done."]) as it:
        repository(it)
        mark = it.folder / "ran"
        script = it.folder / ".git" / "program"
        script.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
        script.chmod(0o755)
        for hook in ("pre-commit", "post-checkout", "post-index-change", "post-commit"):
            (it.folder / ".git/hooks" / hook).symlink_to(script)
        names = "core.fsmonitor core.pager core.editor core.sshCommand gpg.program"
        at_terminal(it, "; ".join(f"git config {name} {script}" for name in names.split()))
        at_terminal(it, "git config commit.gpgsign true")
        (it.folder / "a.py").write_text("changed\n")
        mark.unlink(missing_ok=True)
        it.events("-p", "Go.")
        assert not mark.exists(), said(it)
        assert all("exit code 0" in one for one in said(it)), said(it)


@pytest.mark.parametrize(
    ("settings", "attributes", "told"),
    [
        ("filter.x.clean 'touch ran'", "", r"filter\.x\.clean"),
        ("diff.x.textconv 'touch ran'", "* diff=x", r"diff\.x\.textconv"),
        ("diff.external 'touch ran'", "", r"diff\.external"),
        ("hook.x.event reference-transaction", "", r"hook\.x\.event"),
        ("remote.origin.promisor true", "", r"remote\.origin\.promisor"),
        ("include.path ../more", "", r"include\.path"),
        ("user.name x", "a.py filter=lfs", "a.py goes through a filter"),
    ],
)
def test_git_refuses_a_repository_that_runs_programs(
    settings: str, attributes: str, told: str, tmp_path: Path
) -> None:
    with scene(tmp_path, [calls(git("add", "a.py")), calls(git("diff")), "Done."]) as it:
        repository(it)
        at_terminal(it, f"git config {settings}")
        (it.folder / ".gitattributes").write_text(attributes)
        (it.folder / "a.py").write_text("changed\n")
        it.events("-p", "Go.")
        assert all(re.search(told, one) for one in said(it)), said(it)
        assert not (it.folder / "ran").exists()


def test_git_adds_nothing_by_the_settings_of_a_submodule(tmp_path: Path) -> None:
    """Git would look into it by running git again, where its filter is. Names with odd bytes, in
    settings and of files, hide nothing of that."""
    looks = [git("add", "-A"), git("commit", "-m", "x"), git("show", "--stat")]
    with scene(tmp_path, [*map(calls, looks), "Done."]) as it:
        repository(it)
        inner = it.folder / "sub"
        at_terminal(it, "git init -q sub; git config user.name $(printf 'A\\001B'); touch b.py")
        (it.folder / "c\x01.py").touch()
        (inner / ".gitattributes").write_text("* filter=x\n")
        (inner / "a").write_text("a")
        who = "-c user.name=A -c user.email=a@b.c"
        at_terminal(
            it, f"git -C sub add .; git -C sub {who} commit -qm s; git add sub 2> /dev/null"
        )
        at_terminal(it, f"git commit -qm sub; git -C sub config filter.x.clean 'touch {inner}/ran'")
        (inner / "a").write_text("b")
        it.events("-p", "Go.")
        assert not (inner / "ran").exists(), said(it)
        assert "2 files changed" in said(it)[-1]


async def test_settings_and_hooks_of_a_repository_stay(tmp_path: Path) -> None:
    """Whatever runs beside git in its sandbox: only objects, references and the index change."""
    tries = (
        "config=[core] hooks/pre-commit=x info/attributes=x commondir=x config.worktree=x HEAD2=x"
    )
    script = "; ".join(
        f"echo '{text}' >> .git/{name}" for name, text in (one.split("=") for one in tries.split())
    )
    script += "; mv .git moved; rm -rf .git/hooks; rm -rf .git/modules; mkdir .git/modules/x"
    with scene(tmp_path, "never") as it:
        repository(it)
        before = (it.folder / ".git/config").read_text()
        async with Runtime() as runtime:
            spec = SandboxSpec(it.folder, repository=True)
            await runtime.sandboxes.run(["sh", "-c", script], spec)
        assert (it.folder / ".git/config").read_text() == before
        assert (it.folder / ".git/HEAD2").exists(), "the rest of it can be written"
        assert not (it.folder / ".git/hooks/pre-commit").exists()
        assert not (it.folder / ".git/info/attributes").exists()
        assert not (it.folder / ".git/modules").exists()
        assert not (it.folder / ".git/commondir").exists()
        assert not (it.folder / ".git/config.worktree").exists()


# A person.


def test_where_nobody_sits_a_question_is_refused(tmp_path: Path) -> None:
    with scene(tmp_path, [calls(("ask", {"question": "Which one?"})), "Done."]) as it:
        events = it.events("-p", "Go.")
        assert events[-1]["reason"] == "done"
        assert "nobody can be asked" in said(it)[0]
        assert "say what you took for granted" in said(it)[0]


async def test_a_question_outlives_the_session(tmp_path: Path) -> None:
    """It is asked again when the session goes on, and its answer reaches the model."""
    asked: list[str] = []

    def ignore(_: Runtime, question: Question) -> None:
        asked.append(question.text)

    def answer(runtime: Runtime, question: Question) -> None:
        asked.append(question.text)
        answering.append(asyncio.ensure_future(runtime.answer(question.id, "the blue one")))

    answering: list[asyncio.Future[None]] = []
    script = [calls(("ask", {"question": "Which one?"})), "Done."]
    with scene(tmp_path, script) as it, it.inside():
        with suppress(KeyError):
            async with SageAgent(on_question=ignore) as sage:
                async for event in sage.turn("Go."):
                    if isinstance(event, SageToolBegan):
                        await until(lambda: bool(asked))
                        raise KeyError
        async with SageAgent(resume="", on_question=answer) as sage:
            *_, _ = [event async for event in sage.go_on()]
        assert asked == ["Which one?"] * 2
        assert said(it) == ["The person answered: the blue one"]
        assert len(it.bodies) == 2


@pytest.mark.parametrize("sits_there", [True, False])
async def test_an_approval_that_was_open_at_a_kill_is_asked_for_again(
    tmp_path: Path, *, sits_there: bool
) -> None:
    """Where nobody sits any more it is refused, and the session does not wait for ever."""
    asked: list[str] = []
    answering: list[asyncio.Future[None]] = []

    def ignore(_: Runtime, question: Question) -> None:
        asked.append(question.id)

    def approve(runtime: Runtime, question: Question) -> None:
        asked.append(question.id)
        answering.append(asyncio.ensure_future(runtime.answer(question.id, answer=True)))

    refused: list[Question] = []
    script = [calls(("write", {"path": "a.txt", "content": "a"})), "Done."]
    with scene(tmp_path, script) as it, it.inside():
        with suppress(KeyError):
            async with SageAgent(mode="ask", on_question=ignore) as sage:
                async for event in sage.turn("Go."):
                    if isinstance(event, SageToolBegan):
                        await until(lambda: bool(asked))
                        raise KeyError
        ask = approve if sits_there else None
        async with SageAgent(resume="", on_question=ask, on_refused=refused.append) as sage:
            async with asyncio.timeout(PATIENCE_S):
                *_, end = [event async for event in sage.go_on()]
        asked += [question.id for question in refused]
        assert len(asked) == 2
        assert len(set(asked)) == 1
        assert (it.folder / "a.txt").exists() is sits_there
        assert isinstance(end, SageEnd)
        assert (end.reason, end.refused) == ("done", int(not sits_there))


# The web.


class Pages(BaseHTTPRequestHandler):
    """A page, a picture, and a way elsewhere."""

    def do_GET(self) -> None:
        kind, body, status = {
            "/page": (
                "text/html",
                "<title>Title</title><p>One</p><script>x()</script><p>Two &amp;",
                200,
            ),
            "/picture": ("image/png", "PNG", 200),
            "/away": ("text/plain", "", 302),
        }.get(self.path, ("text/plain", "nothing here", 404))
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if status == 302:
            self.send_header("location", "http://localhost:1/")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pass


@contextmanager
def web() -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_page_is_fetched_where_a_rule_allows_its_host(tmp_path: Path) -> None:
    with web() as host:
        paths = ("page", "picture", "away", "gone")
        wanted = calls(*(("fetch", {"url": f"http://{host}/{path}"}) for path in paths))
        with scene(tmp_path, [wanted, "Done."]) as it:
            it.settings(f'[permissions]\nrules = ["allow net::get {host}"]\n')
            it.events("-p", "Go.")
            page, picture, away, gone = said(it)
            assert "One\nTwo &" in page
            assert "x()" not in page
            assert "<untrusted" in page
            assert "is no text" in picture
            assert "CapabilityDenied" in away
            assert "status 404" in gone


@pytest.mark.parametrize("mode", ["auto", "plan"])
def test_without_a_rule_nothing_is_fetched(mode: str, tmp_path: Path) -> None:
    with web() as host:
        wanted = calls(("fetch", {"url": f"http://{host}/page"}), ("fetch", {"url": "file:///etc"}))
        with scene(tmp_path, [wanted, "Done."]) as it:
            ran = it.here("-p", "Go.", "--mode", mode)
            assert "needs an approval" in said(it)[0]
            assert "One" not in said(it)[0]
            assert "it is not http" in said(it)[1]
            assert f"allow net::get {host}" in ran.stderr


# Images.

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (8).to_bytes(4) * 2 + b"\x08\x02\0\0\0"


def test_an_image_goes_with_the_prompt_and_stays_the_same(tmp_path: Path) -> None:
    """Also when the session was killed, and the file has changed since."""
    slow = calls(("shell", {"command": "touch began; sleep 60"}))
    with scene(tmp_path, [slow, "Seen.", "Again."]) as it:
        image = it.folder / "shot.png"
        image.write_bytes(PNG)
        it.killed(
            *("-p", "What is on it?", "--image", "shot.png"),
            when=lambda event: event["type"] == "tool_began",
        )
        image.write_bytes(PNG + b"changed")
        it.events("--resume")
        it.events("--continue", "-p", "And now?")
        first, *later = [body["messages"][0]["content"] for body in it.bodies]
        sent = [part for part in first if part["type"] == "image"]
        assert [part["source"]["data"] for part in sent] == [b64encode(PNG).decode()]
        for content in later:
            assert [{**p, "cache_control": 0} for p in content] == [
                {**p, "cache_control": 0} for p in first
            ]
        assert len(later) == 2


def test_a_read_of_an_image_says_how_to_send_it(tmp_path: Path) -> None:
    with scene(tmp_path, [calls(("read", {"path": "shot.png"})), "Done."]) as it:
        (it.folder / "shot.png").write_bytes(PNG)
        it.events("-p", "Look.")
        assert "--image shot.png" in said(it)[0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-p", "x", "--image", "gone.png"), "gone.png is not a file"),
        (("-p", "x", "--image", "a.py"), "an image is one of png, jpeg, gif, webp"),
        (("--continue", "--image", "a.png"), "an image goes with a prompt"),
    ],
)
def test_wrong_images_say_what_to_type(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    with scene(tmp_path, "never") as it:
        (it.folder / "a.py").write_text(SOURCE)
        ran = it.here(*words)
        assert ran.returncode == 1
        assert told in ran.stderr
        assert it.bodies == []


# Programs.

PROGRAM = """
from vegakit import program, vega

@program(may=["fs::read"], allowed_paths=["a.py"])
def main(times: int) -> int:
    print(vega.file.read("a.py"))
    return times * 7
"""


def test_the_agent_runs_a_program_that_it_wrote(tmp_path: Path) -> None:
    """The language is told when it is asked for; the first request stays small with all tools."""
    run = ("run_program", {"source": PROGRAM, "arguments": {"times": 6}})
    with scene(tmp_path, [calls(("program_card", {})), calls(run), "Done.", "Again."]) as it:
        (it.folder / "a.py").write_text(SOURCE)
        events = it.events("-p", "Go.", "--programs")
        it.events("--continue", "-p", "And now?")
        card, result = said(it)
        assert "@program" in card
        assert "42" in result
        assert "return 1" in result
        assert len(it.provider.requests[0].raw) <= 12_000
        assert "run_program" in json.dumps(it.bodies[-1]["tools"]), "also when it goes on"
        assert len({json.dumps(body["tools"]) for body in it.bodies}) == 1
        (quote,) = [
            e for e in events if e["type"] == "quote"
        ]  # it asks nobody, so it costs nothing
        assert (quote["worst_usd"], quote["program"]) == (0.0, "1.2.0")


ASKING = """
from vegakit import Agent, program

reader = Agent("reader", model="smart", max_tokens=100)

@program
def main() -> list[str]:
    return [reader(f"Line {i}") for i in range(3)]
"""


def test_what_a_program_may_cost_is_told_before_it_asks(tmp_path: Path) -> None:
    """One that is refused was never to run, so nothing is told of it."""
    refused = ("run_program", {"source": ASKING.replace("range(3)", "range(90_000)")})
    script = {
        "Line": "a line",
        "Go": [calls(refused), calls(("run_program", {"source": ASKING})), "Done."],
    }
    with scene(tmp_path, script) as it:
        events = it.events("-p", "Go.", "--programs", "--budget", "$1")
        (quote,) = [e for e in events if e["type"] == "quote"]
        assert (quote["tasks"], quote["program"]) == ([], "1.2.0")
        assert 0 < quote["typical_usd"] < quote["worst_usd"] < 0.01
        began = next(at for at, e in enumerate(events) if e.get("id") == "1.2.0")
        done = next(at for at, e in enumerate(events) if e["type"] == "tool_ended" and at > began)
        assert began < events.index(quote) < done
        it.provider.reset()
        told = it.here("-p", "Go.", "--programs", "--budget", "$1").stderr
        assert "a program: at most $0.00" in told
        assert ", typical $0.00" in told


# MCP servers.

SUMS = """
from pathlib import Path
from mcp.server.mcpserver import MCPServer

server = MCPServer("sums")

@server.tool()
def add(a: int, b: int) -> int:
    "Adds two numbers."
    Path("sum.txt").write_text(str(a + b))
    return a + b

server.run()
"""


def test_tools_of_an_accepted_server_are_tools_of_the_session(tmp_path: Path) -> None:
    """One that nobody accepted is left out; what a server writes in the workspace is undone."""
    add = calls(("sums__add", {"a": 20, "b": 22}))
    with scene(tmp_path, ["Nothing.", add, "Done."]) as it:
        (it.folder / "sums.py").write_text(SUMS)
        words = json.dumps([sys.executable, "-I", "sums.py"])
        readable = json.dumps([sys.prefix, sys.base_prefix])
        it.settings(
            f"[mcp.sums]\ncommand = {words}\nreadable = {readable}\n"
            f'folder = "{it.folder}"\ncapabilities = ["fs::write"]\n'
        )
        ran = it.vega("-p", "Go.")
        assert "vega mcp accept sums" in ran.stderr
        assert "sums__add" not in json.dumps(it.bodies)
        asked = it.vega("accept", "sums", command="mcp")
        digest = asked.stderr.rpartition("--digest ")[2].split()[0]
        assert it.vega("accept", "sums", "--digest", digest, command="mcp").returncode == 0
        before = tree(it.folder)
        it.events("-p", "Add.")
        assert "42" in said(it)[0]
        assert (it.folder / "sum.txt").read_text() == "42"
        assert it.vega(command="undo").returncode == 0
        assert tree(it.folder) == before


# Jobs.


def background(command: str) -> Any:
    return calls(("shell", {"command": command, "background": True}))


def job(action: str, number: int = 1, wait_s: int = 30) -> Any:
    return calls(("job", {"id": number, "action": action, "wait_s": wait_s}))


def test_a_job_runs_beside_and_is_read_and_stopped(tmp_path: Path) -> None:
    """While it runs other commands do, too. What it wrote while no other tool ran may be the
    person's: it is kept, named at the end of the turn and by undo, and taken back if asked."""
    script = [
        background(f"echo one; echo $$ > made; {shell_until('[ -f go ]')}; echo two; cat"),
        job("read"),
        calls(("shell", {"command": "touch go"})),
        job("read"),
        background("exit 3"),
        job("read", 2),
        background("sleep 100"),
        job("stop", 3),
        job("read", 3),
        job("read", 4),
        "Done.",
    ]
    with scene(tmp_path, script) as it:
        end = it.events("-p", "Go.")[-1]
        began, one, _, two, _, ended, _, stopped, still, unknown = said(it)
        assert began.startswith("job 1 runs")
        assert "one" in one
        assert "job 1 runs since" in one
        assert "two" in two
        assert "one" not in two
        assert "job 2 ended with exit code 3" in ended
        assert stopped == still == "job 3 was stopped"
        assert "there is no job 4 (there are: 1, 2, 3)" in unknown
        assert set(tree(it.folder)) == {"made", "go"}
        assert (end["changed"], end["unrecorded"]) == (2, 1)
        assert "in the background, 1 of 2, which may be yours: made; to" in end["not_undoable"]
        ran = it.vega(command="undo")
        assert ran.returncode == 0
        assert "made: it changed while a command ran in the background" in ran.stdout
        assert "vega undo --redo, then the same with --overwrite" in ran.stdout
        assert set(tree(it.folder)) == {"made"}
        assert it.vega("--redo", command="undo").returncode == 0
        assert it.vega("--overwrite", command="undo").returncode == 0
        assert tree(it.folder) == {}


@pytest.mark.parametrize("is_killed", [False, True])
async def test_no_job_outlives_its_turn(tmp_path: Path, *, is_killed: bool) -> None:
    """Nor vega itself, when that is killed."""
    mark = f"mark-{tmp_path.name}-{os.getpid()}"
    hold = calls(("shell", {"command": shell_until("[ -f began ]")}))
    last = calls(("shell", {"command": "sleep 100"})) if is_killed else "Done."
    script = [background(f"touch began; sleep 100; echo {mark}"), hold, last, "Done."]
    with scene(tmp_path, script) as it:
        if is_killed:
            ended: list[str] = []

            def is_time(event: dict[str, Any]) -> bool:
                ended.extend([event["id"]] if event["type"] == "tool_ended" else [])
                if len(ended) == 2:
                    assert is_running(mark)
                return len(ended) == 2

            await asyncio.to_thread(it.killed, "-p", "Go.", when=is_time)
        else:
            await asyncio.to_thread(it.vega, "-p", "Go.")
        assert (it.folder / "began").exists()
        await until(lambda: not is_running(mark))


def is_running(mark: str) -> bool:
    """Whether a process has these words in its command line."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if mark.encode() in process.read_bytes():
                return True
    return False


def test_a_write_is_not_over_what_a_person_did_meanwhile(tmp_path: Path) -> None:
    """What it wrote itself it knows."""
    read = ("read", {"path": "a.txt"})
    first, second = (("write", {"path": "a.txt", "content": text}) for text in ("1\n", "2\n"))
    steps = iter([calls(read), calls(first), calls(read), calls(first), calls(second), "Done."])
    asked = count(1)

    def answer(_: ProviderRequest) -> ProviderAnswer:
        if next(asked) == 2:
            (tmp_path / "work/a.txt").write_text("mine\n")
        return next(steps)

    with scene(tmp_path, answer) as it:
        (it.folder / "a.txt").write_text("old\n")
        it.events("-p", "Write it.")
        told = [json.dumps(result["content"]) for result in it.results(it.bodies[-1])]
        assert "was changed since you read it" in told[1]
        assert ["wrote a.txt" in one for one in told] == [False, False, False, True, True]
        assert (it.folder / "a.txt").read_text() == "2\n"


def test_a_whole_file_that_somebody_made_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    """One that is older is; a file that the agent made, or that is empty, is known."""
    add = "*** Begin Patch\n*** Add File: c.txt\n+c\n*** End Patch"
    wanted = [
        ("write", {"path": "a.txt", "content": "A\n"}),
        ("write", {"path": "b.txt", "content": "B\n"}),
        ("edit", {"path": "b.txt", "old": "mine", "new": "ours"}),
        ("write", {"path": "b.txt", "content": "B\n"}),
        ("write", {"path": "empty.txt", "content": "e\n"}),
        ("apply_patch", {"patch": add}),
        ("write", {"path": "c.txt", "content": "C\n"}),
        ("read", {"path": "b.txt"}),
        ("write", {"path": "b.txt", "content": "B\n"}),
    ]
    steps = iter([*map(calls, wanted), "Done."])
    asked = count(1)

    def answer(_: ProviderRequest) -> ProviderAnswer:
        if next(asked) == 2:
            (tmp_path / "work/b.txt").write_text("mine\n")
            (tmp_path / "work/empty.txt").touch()
        return next(steps)

    with scene(tmp_path, answer) as it:
        (it.folder / "a.txt").write_text("old\n")
        os.utime(it.folder / "a.txt", (1_000_000_000, 1_000_000_000))
        it.events("-p", "Write it.")
        told = [json.dumps(result["content"]) for result in it.results(it.bodies[-1])]
        refused = [number for number, one in enumerate(told) if "you have not read it" in one]
        assert refused == [1, 3]
        assert "1\\tours" in told[7]
        made = [(it.folder / f"{name}.txt").read_text() for name in ("a", "b", "c", "empty")]
        assert made == ["A\n", "B\n", "C\n", "e\n"]


def test_an_edit_of_what_a_person_changed_meanwhile_is_told_so(tmp_path: Path) -> None:
    """What they did is kept; the agent is told to read it again, until it has."""
    read = ("read", {"path": "a.txt"})
    first = ("edit", {"path": "a.txt", "old": "one", "new": "two"})
    patch = "*** Begin Patch\n*** Update File: a.txt\n-two, mine\n+three, mine\n*** End Patch"
    last = ("edit", {"path": "a.txt", "old": "three", "new": "four"})
    wanted = [read, first, ("apply_patch", {"patch": patch}), read, last]
    steps, asked = iter([*map(calls, wanted), "Done."]), count(1)

    def answer(_: ProviderRequest) -> ProviderAnswer:
        if next(asked) == 2:
            (tmp_path / "work/a.txt").write_text("one, mine\n")
        return next(steps)

    with scene(tmp_path, answer) as it:
        (it.folder / "a.txt").write_text("one\n")
        it.events("-p", "Edit it.")
        told = [json.dumps(result["content"]) for result in it.results(it.bodies[-1])]
        is_told = ["changed since you read it" in one for one in told]
        assert is_told == [False, True, True, False, False]
        assert (it.folder / "a.txt").read_text() == "four, mine\n"
