"""What each tool tells an official client, and that what it runs can be seen and ended."""

import asyncio
from pathlib import Path

import pytest

from tests.mcp_server.stage import AGENT, ASK, Gated, staged
from tests.patience import until
from vegakit.lang import card
from vegakit.money import dollars
from vegakit.sdk import Runtime
from vegakit.server import runs, runs as progress
from vegakit.server.mcp import MCP_TOOLS
from vegakit.server.runs import run_id

MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])


@MODES
async def test_the_tools_are_listed(tmp_path: Path, mode: str) -> None:
    """Each with a closed schema, so that no field is passed over."""
    async with staged(tmp_path) as stage, stage.client(mode) as call:
        tools = (await call.client.list_tools()).tools
    assert [tool.name for tool in tools] == list(MCP_TOOLS)
    assert all(tool.input_schema["additionalProperties"] is False for tool in tools)
    assert all(tool.input_schema["type"] == "object" for tool in tools)


@MODES
async def test_a_program_runs(tmp_path: Path, mode: str) -> None:
    """With arguments; result, output and account come back."""
    source = AGENT + "fn main(n: int, m: money) -> {str: money} {\n"
    source += '    print(A <- "say {n}");\n    return {"sum": m * n};\n}\n'
    async with staged(tmp_path) as stage, stage.client(mode) as call:
        ran = await call("run", source=source, arguments=[3, "$1.50"])
        assert not ran.refused
        assert ran.page["result"] == {"sum": "$4.50"}
        assert ran.page["printed"] == "an answer\n"
        assert ran.page["error"] == ""
        assert ran.page["spent"] == "$0.000012"
        assert ran.page["left"] == "$0.999988"


async def test_a_file_of_the_project_runs_with_what_it_uses(tmp_path: Path) -> None:
    """By its path from the project's folder."""
    async with staged(tmp_path) as stage, stage.client() as call:
        ran = await call("run", path="uses.vega")
        assert ran.page["printed"] == "ABC\n"


async def test_a_program_in_python_runs(tmp_path: Path) -> None:
    """As source and as a file; its card is given too."""
    source = (
        "from vegakit import Agent, program\n\n"
        'a = Agent("a", model="fast", max_tokens=100)\n\n\n'
        "@program\ndef main(n: int) -> int:\n"
        '    print(a(f"say {n}"))\n    return n + 1\n'
    )
    async with staged(tmp_path) as stage, stage.client() as call:
        ran = await call("run", source=source, language="python", arguments=[3])
        assert (ran.page["result"], ran.page["printed"]) == (4, "an answer\n")
        (stage.root / "lib/ask.py").write_text(source)
        assert (await call("run", path="lib/ask.py", arguments=[4])).page["result"] == 5
        assert (await call("card", language="python")).text == card("python")


async def test_what_is_wrong_is_told_with_edits(tmp_path: Path) -> None:
    """As `vega check` does."""
    async with staged(tmp_path) as stage, stage.client() as call:
        found = await call("check", source="let x = 1\nprint(x);\n")
        assert found.refused
        assert "missing-semicolon" in found.text
        assert found.page["diagnostics"][0]["edit"]["text"] == ";"
        assert (await call("check", source=ASK)).text == "in order"
        for tool in ("cost", "explain", "run"):
            assert "missing-semicolon" in (await call(tool, source="let x = 1\nprint(x);")).text


async def test_a_program_is_priced_and_explained(tmp_path: Path) -> None:
    """Without a call."""
    source = 'program may [fs::read] allowed_paths ["src/**", "etc/**"]\n' + AGENT
    source += 'print(A <- file::read("src/a.txt"));\n'
    async with staged(tmp_path) as stage, stage.client() as call:
        priced = await call("cost", source=ASK)
        [line] = priced.page["lines"]
        assert line["at_most"] == priced.page["at_most"]
        assert dollars("$0.0005") < dollars(line["at_most"]) < dollars("$0.01")
        assert priced.page["left"] == "$1.00"
        told = await call("explain", source=source)
        assert told.page["manifest"]["reads"] == ["etc/**", "src/**"]
        [line] = told.page["not_granted"]
        assert '["etc/**"] is not inside what is granted: write "src/**"' in line
        [flow] = told.page["flows"]
        assert "after line 3" in str(flow["waits"])
        assert stage.model.requests == []


async def test_an_error_of_a_program_is_told(tmp_path: Path) -> None:
    """With what it printed before."""
    async with staged(tmp_path) as stage, stage.client() as call:
        ran = await call("run", source='print("so far");\nfail("no further");')
        assert ran.refused
        assert ran.page["error"].startswith("Failed: no further")
        assert ran.page["printed"] == "so far\n"


async def test_hidden_letters_are_shown(tmp_path: Path) -> None:
    """What a model reads here holds nothing that a person would not see."""
    async with staged(tmp_path) as stage, stage.client() as call:
        source = 'fn main() -> str { print("a\\u{202E}b"); return "c\\u{200B}d"; }'
        ran = await call("run", source=source)
        assert ran.page["result"] == "c\u200bd"
        assert not {"\u202e", "\u200b"} & {*ran.text}


async def test_wrong_arguments_are_told(tmp_path: Path) -> None:
    """Before anything runs."""
    source = AGENT + "fn main(n: int) { print(n); }"
    async with staged(tmp_path) as stage, stage.client() as call:
        assert "main takes 1 arguments; got 0" in (await call("run", source=source)).text
        told = await call("run", source=source, arguments=["many"])
        assert "n of main: expected a whole number" in told.text
        assert "in `arguments`" in told.text


async def test_the_card_is_given(tmp_path: Path) -> None:
    """The same that `vega card` prints."""
    async with staged(tmp_path) as stage, stage.client() as call:
        assert (await call("card")).text == card()


async def test_a_run_is_seen_and_killed(tmp_path: Path) -> None:
    """By another client; who waits for it is told, and its money comes back."""
    model = Gated(is_open=False)
    async with staged(tmp_path, model) as stage, stage.client() as one, stage.client() as other:
        waiting = asyncio.ensure_future(one("run", source=ASK))
        await until(lambda: model.requests)
        seen = await other("ps")
        assert "run-1" in [row["id"] for row in seen.page["processes"]]
        assert any(row["waiting_for"] == "model scripted" for row in seen.page["processes"])
        most = dollars((await other("cost", source=ASK)).page["at_most"])
        assert dollars(seen.page["left"]) == dollars("$1") - most
        assert "run-1" in (await other("kill", id="run-1")).page["ended"]
        assert (await waiting).refused
        now = (await other("ps")).page
        assert now["processes"] == []
        assert dollars("$0.99") < dollars(now["left"]) < dollars("$1")


@MODES
async def test_a_request_that_is_cancelled_ends_its_run(tmp_path: Path, mode: str) -> None:
    """Nothing runs for nobody."""
    model = Gated(is_open=False)
    async with staged(tmp_path, model) as stage, stage.client(mode) as call:
        waiting = asyncio.ensure_future(call("run", source=ASK))
        await until(lambda: model.requests)
        waiting.cancel()
        await until(lambda: not any(map(run_id, (view.path for view in stage.runtime.ps()))))
        assert (await call("ps")).page["processes"] == []


class Hearing:
    def __init__(self) -> None:
        self.said: list[str] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.said.append(message or "")


@MODES
async def test_what_is_printed_is_told_while_it_runs(tmp_path: Path, mode: str) -> None:
    """To a client that asks for progress."""
    model, hear = Gated(is_open=False), Hearing()
    async with staged(tmp_path, model) as stage, stage.client(mode) as call:
        given = {"source": 'print("so far");\n' + ASK}
        asked = call.client.call_tool("run", given, progress_callback=hear)
        waiting = asyncio.ensure_future(asked)
        await until(lambda: "so far\n" in hear.said)
        assert not waiting.done()
        model.gate.set()
        assert not (await waiting).is_error


async def test_a_client_hears_that_a_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it need not give up on it."""
    monkeypatch.setattr(progress, "_EVERY_S", 0.05)
    monkeypatch.setattr(progress, "_PAUSE_S", 0.0)
    model, hear = Gated(is_open=False), Hearing()
    async with staged(tmp_path, model) as stage, stage.client() as call:
        asked = call.client.call_tool("run", {"source": ASK}, progress_callback=hear)
        waiting = asyncio.ensure_future(asked)
        await until(lambda: hear.said.count("still running") > 3)
        model.gate.set()
        assert not (await waiting).is_error


async def test_much_output_is_cut(tmp_path: Path) -> None:
    """So that a program does not fill its reader's context."""
    source = 'for i in range(3000) { print("0123456789"); }\n'
    async with staged(tmp_path) as stage, stage.client() as call:
        printed = (await call("run", source=source)).page["printed"]
        assert 19_000 < len(printed) < 21_000
        assert printed.endswith("… cut\n")
        long = await call("run", source='fn main() -> str { return str::repeat("x", 200000); }')
        assert "LimitReached: its result has 200,002 characters" in long.page["error"]


async def test_an_endless_program_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its fuel, though it asks nobody; others are served meanwhile."""
    monkeypatch.setattr(runs, "_MOST_FUEL", 50_000)
    source = "let n = 0;\nwhile true { n = n + 1; if n > 1000 { n = 0; } }\nprint(n);\n"
    async with staged(tmp_path) as stage, stage.client() as one, stage.client() as other:
        endless = asyncio.ensure_future(one("run", source=source))
        assert not (await other("run", source=ASK)).refused
        assert "LimitReached" in (await endless).page["error"]


async def test_nothing_is_kept_of_programs_that_ran(tmp_path: Path) -> None:
    """A server lives long, and each client writes new ones."""
    async with staged(tmp_path) as stage, stage.client() as call:
        before = {*stage.runtime.program.registry.code}
        for n in range(5):
            assert not (await call("run", source=ASK + f"print({n});")).refused
        await until(lambda: not any(map(run_id, (view.path for view in stage.runtime.ps()))))
        await call("run", source="print(1);")
        left = {*stage.runtime.program.registry.code} - before
        assert [name for name in left if not name.startswith(("6!", "_"))] == []


async def test_other_runtimes_are_reached_if_that_is_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their names, as `vega ps` and `vega kill --tree` do."""
    monkeypatch.setenv("VEGA_OBSERVABLE_SOCKETS", str(tmp_path / "s"))

    async def busy() -> None:
        await asyncio.Event().wait()

    async with (
        Runtime(name="elsewhere", observable=True) as rt,
        staged(tmp_path, all_runtimes=True) as stage,
        stage.client() as call,
    ):
        process = rt.spawn(busy, name="busy")
        seen = await call("ps", at="elsewhere")
        assert [row["id"] for row in seen.page["processes"]] == ["busy"]
        assert (await call("kill", id="busy")).page["ended"] == ["busy"]
        assert not process.alive
        assert "no runtime is called nobody" in (await call("ps", at="nobody")).text


async def test_who_ends_the_wallet_ends_the_server(tmp_path: Path) -> None:
    """`vega kill --tree mcp`: nothing is begun without it."""
    async with staged(tmp_path) as stage, stage.client() as call:
        await stage.runtime.process("mcp").kill()
        await until(stage.gone.done)
        assert (await call("run", source=ASK)).refused
        assert stage.model.requests == []
