"""Tool calls of a runtime with permissions: allowed, asked about, denied."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S, pass_virtual_time, until
from tests.runtime.oversight.desk import Shop, buyer, calls, next_question, results
from vegakit.config import CutOffTools, ResumeTarget, load
from vegakit.errors import InvalidRuleError, ToolCutOff
from vegakit.host import PermissionPolicy
from vegakit.policy import PermissionMode
from vegakit.sdk import Runtime, runtime_arguments
from vegakit.store import read_audit
from vegakit.testing import FakeClock, VirtualClock, run_virtual


async def outcome(rules: list[str], mode: str, *script: object) -> list[str]:
    """Of a run in which nobody answers, because nobody is asked."""
    shop = Shop()
    agent = buyer(shop, *script)
    async with Runtime(permissions=rules, mode=mode) as rt:
        await asyncio.wait_for(_ask(rt, agent), PATIENCE_S)
    return results(agent)


async def _ask(rt: Runtime, agent: object) -> object:
    return await rt.ask(agent, "buy")  # pyright: ignore[reportArgumentType]


async def test_without_permissions_tools_run_within_their_grants() -> None:
    """As they always did."""
    shop = Shop()
    async with Runtime() as rt:
        await rt.ask(buyer(shop, calls("pay", amount=3)), "buy")
    assert shop.paid == [3]


@pytest.mark.parametrize(
    ("rules", "mode", "tool", "said"),
    [
        ([], "read-only", "look", "full"),
        ([], "read-only", "pay", "nothing but reading runs"),
        ([], "read-only", "plain", "nothing but reading runs"),
        ([], "read-only", "bare", "nothing but reading runs"),
        ([], "read-only", "computes", "done"),
        ([], "ask", "look", "full"),
        (["allow tool::pay"], "ask", "pay", "paid 3"),
        (["allow net"], "auto-in-sandbox", "pay", "paid 3"),
        (["deny net::post", "allow tool"], "ask", "pay", "the rule 'deny net::post' covers it"),
        (["deny tool::pay", "allow tool"], "ask", "pay", "a denial always wins"),
        (["allow tool::plain"], "ask", "plain", "done"),
    ],
)
async def test_rules_and_modes_decide(rules: list[str], mode: str, tool: str, said: str) -> None:
    """What is denied is an error result that the model sees."""
    arguments = {"amount": 3} if tool == "pay" else {}
    [told] = await outcome(rules, mode, calls(tool, **arguments))
    assert said in told
    assert told.startswith("CapabilityDenied: ") == (said not in {"full", "paid 3", "done"})


async def test_what_needs_leave_waits_for_it() -> None:
    """The person sees tool and arguments; the call is made once."""
    shop = Shop()
    agent = buyer(shop, calls("pay", amount=3))
    async with Runtime(mode="ask") as rt:
        asking = asyncio.ensure_future(_ask(rt, agent))
        question = await next_question(rt)
        assert 'pay {"amount":3}' in question.text
        assert question.process == "buyer~1"
        assert shop.paid == []
        await rt.answer(question.id, True)
        await asking
    assert shop.paid == [3]


@pytest.mark.parametrize("decline", ["person", "silence"])
async def test_what_is_declined_is_not_done(decline: str) -> None:
    """The model is told so, and goes on."""
    shop, clock = Shop(), FakeClock()
    agent = buyer(shop, calls("pay", amount=3))
    permissions = PermissionPolicy([], PermissionMode.ASK, ttl_ms=1_000)
    async with Runtime(permissions=permissions, clock=clock) as rt:
        asking = asyncio.ensure_future(_ask(rt, agent))
        question = await next_question(rt)
        if decline == "person":
            await rt.answer(question.id, False)
        else:
            clock.advance(1_000)
        await asking
    assert shop.paid == []
    assert "needs an approval of exactly this" in results(agent)[0]


async def test_an_approval_is_for_these_arguments_only() -> None:
    """The next call of the same tool asks anew."""
    shop = Shop()
    agent = buyer(shop, calls("pay", amount=3), calls("pay", amount=300))
    async with Runtime(mode="ask") as rt:
        asking = asyncio.ensure_future(_ask(rt, agent))
        await rt.answer((await next_question(rt)).id, True)
        question = await next_question(rt)
        assert "300" in question.text
        await rt.answer(question.id, False)
        await asking
    assert shop.paid == [3]


def test_a_person_may_take_longer_than_a_tool() -> None:
    """Its time limit begins when it does."""

    async def patiently() -> None:
        shop = Shop()
        shop.pay.timeout_ms = 10
        async with Runtime(mode="ask", clock=VirtualClock()) as rt:
            asking = asyncio.ensure_future(_ask(rt, buyer(shop, calls("pay", amount=3))))
            question = await next_question(rt)
            await pass_virtual_time(0.02)
            await rt.answer(question.id, True)
            await asking
        assert shop.paid == [3]

    run_virtual(patiently())


async def cut_off() -> None:
    raise InterruptedError


async def test_a_call_that_is_cut_off_while_it_waits_was_not_begun(tmp_path: Path) -> None:
    """The resumed run asks the same question, and the call is made once, by the same key."""
    shop, ids = Shop(), list[str]()

    async def life(last_act: Callable[[], Awaitable[object]]) -> None:
        async with Runtime(mode="ask", journal=tmp_path / "run.db") as rt:
            asking = rt.spawn(buyer(shop, calls("pay", amount=3))).send("buy")
            ids.append((await next_question(rt)).id)
            await last_act()
            await rt.answer(ids[0], True)
            await asking

    for _ in range(2):
        with pytest.raises(InterruptedError):
            await life(cut_off)
    await life(lambda: asyncio.sleep(0))
    assert shop.paid == [3]
    assert len(ids) == 3
    assert len(set(ids)) == 1
    assert len(shop.keys[0]) == 65


async def test_an_approval_that_was_used_is_used(tmp_path: Path) -> None:
    """Cut off during the call: nobody knows whether it was done, and it is not done again unless a
    person says so."""
    shop, path = Shop(stalls=True), tmp_path / "run.db"
    agent = buyer(shop, calls("pay", amount=3, token=f"{'t' * 900}\x1b"))

    async def first_life() -> None:
        async with Runtime(mode="ask", journal=path) as rt:
            rt.spawn(agent).tell("buy")
            await rt.answer((await next_question(rt)).id, True)
            await shop.begun.wait()
            await cut_off()

    with pytest.raises(InterruptedError):
        await first_life()

    async def goes_on(resume: ResumeTarget | None = None) -> None:
        async with Runtime(mode="ask", journal=path, resume=resume) as rt:
            await rt.spawn(agent).ask("buy")

    shown = r'the tool pay with ."amount":3,"token":"t{900}\\u001b". was being called'
    with pytest.raises(ToolCutOff, match=shown):
        await goes_on()
    await goes_on(ResumeTarget(tools=CutOffTools.SKIP))
    assert shop.paid == [3]
    assert "nobody knows whether it was done" in results(agent)[0]


async def test_keys_of_calls_differ() -> None:
    """Of two equal calls too."""
    shop = Shop()
    twice = {"calls": [{"name": "pay", "arguments": {"amount": 1}}] * 2}
    async with Runtime() as rt:
        await rt.ask(buyer(shop, twice), "buy")
    assert len(set(shop.keys)) == 2


def test_a_wrong_mode_is_told() -> None:
    """With those there are."""
    with pytest.raises(InvalidRuleError, match="read-only, ask, auto-in-sandbox"):
        Runtime(mode="yolo")


async def test_settings_decide_too(tmp_path: Path) -> None:
    """`[permissions]` and `[audit]` of vega.toml."""
    flags = {
        "permissions.rules": ["deny tool::pay"],
        "audit.path": str(tmp_path / "kept" / "audit.db"),
        "data_dir": str(tmp_path),
        "observable.sockets": "",
    }
    settings = load(flags, environment={"HOME": str(tmp_path)}, directory=tmp_path)
    agent = buyer(Shop(), calls("pay", amount=3))
    async with Runtime.from_config(settings) as rt:
        await rt.ask(agent, "buy")
    assert "a denial always wins" in results(agent)[0]
    assert len(read_audit(tmp_path / "kept" / "audit.db", 10)) == 1


def test_settings_say_which_variables_are_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that servers are given, whatever they are called."""
    monkeypatch.setenv("NOTES", "a secret of notes")
    monkeypatch.setenv("BOARD", "a secret of board")
    file = tmp_path / ".config" / "vega" / "vega.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        '[mcp.notes]\ncommand = ["notes"]\nenv = ["NOTES"]\n'
        '[mcp.board]\nurl = "https://board.example"\nbearer = "BOARD"\n'
    )
    home = {"HOME": str(tmp_path)}
    settings = load({"observable.sockets": ""}, environment=home, directory=tmp_path)
    named = runtime_arguments(settings)["secrets"]()
    assert named["a secret of notes"] == "NOTES"
    assert named["a secret of board"] == "BOARD"


async def test_it_is_seen_who_waits_for_a_person() -> None:
    """And for which tool."""
    async with Runtime(mode="ask") as rt:
        process = rt.spawn(buyer(Shop(), calls("pay", amount=3)))
        process.tell("buy")
        await next_question(rt)
        assert rt.ps()[0].waiting_for == "person, tool pay"


async def test_a_wait_for_a_person_is_told_where_nobody_listens(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Rules without a mode ask about what they do not cover; nobody would know."""
    shop = Shop()
    async with Runtime(permissions=["deny fs secrets/**"]) as rt:
        waits = asyncio.ensure_future(_ask(rt, buyer(shop, calls("pay", amount=3))))
        await until(rt.interrupts)
        [question] = rt.interrupts()
        await rt.answer(question.id, True)
        await waits
        [told] = caplog.messages
        assert f"type `vega interrupts` to see for what, and `vega answer {question.id} yes" in told
        await answered(rt, _ask(rt, buyer(shop, calls("pay", amount=4))))
    assert len(caplog.messages) == 1, "somebody listened"
    assert shop.paid == [3, 4]


async def answered(rt: Runtime, ask: Awaitable[object]) -> None:
    waits = asyncio.ensure_future(ask)
    await rt.answer((await next_question(rt)).id, True)
    await waits
