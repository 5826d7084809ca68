"""The audit of a runtime: decisions before effects, results after, keys hidden."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.oversight.desk import Shop, buyer, calls, next_question
from vegakit.errors import StoreError
from vegakit.ports import AuditEntry, AuditHead, AuditLevel
from vegakit.sdk import Runtime
from vegakit.store import read_audit, verify_audit
from vegakit.tools.sandbox.workspace import scan_workspace_sync

KEY = "sk-ant-api03-" + "x" * 40


def entries(path: Path) -> list[dict[str, Any]]:
    assert verify_audit(path).faults == ()
    return [json.loads(link.text) for link in read_audit(path, 100)]


class Full:
    """An audit on a disk that is full."""

    async def append(self, entry: AuditEntry, level: AuditLevel = AuditLevel.BASIC) -> None:
        raise StoreError("the disk is full")

    async def head(self) -> AuditHead:
        return AuditHead(0, "")

    async def aclose(self) -> None:
        pass


async def test_a_call_is_decided_then_made(tmp_path: Path) -> None:
    """Two entries, in that order, with who, what and in which trace."""
    shop, path = Shop(), tmp_path / "audit.db"
    async with Runtime(audit=path) as rt:
        reply = await rt.ask(buyer(shop, calls("pay", amount=3)), "buy")
    decided, called = entries(path)
    assert (decided["action"], decided["decision"]) == ("decide", "allow")
    assert (called["action"], called["decision"], called["result"]) == ("call", "ok", "paid 3")
    assert decided["subject"] == called["subject"] == "pay"
    assert decided["inputs"] == {"amount": 3}
    assert called["trace_id"] == reply.trace_id
    assert decided["actor"].endswith("/buyer~1#1")


async def test_who_approved_is_kept(tmp_path: Path) -> None:
    """And what they were shown."""
    path = tmp_path / "audit.db"
    async with Runtime(audit=path, mode="ask") as rt:
        asking = rt.spawn(buyer(Shop(), calls("pay", amount=3))).send("buy")
        await rt.answer((await next_question(rt)).id, True, by="ann")
        await asking
    asked, answered, decided, called = entries(path)
    assert asked["decision"].startswith("ask: no rule allows it")
    assert (answered["actor"], answered["decision"]) == ("ann", "approved")
    assert 'pay {"amount":3}' in answered["inputs"]
    assert decided["decision"] == "allow: approved by ann"
    assert called["decision"] == "ok"


async def test_what_is_denied_is_kept(tmp_path: Path) -> None:
    """It has no result."""
    path = tmp_path / "audit.db"
    async with Runtime(audit=path, permissions=["deny tool::pay"]) as rt:
        await rt.ask(buyer(Shop(), calls("pay", amount=3)), "buy")
    [decided] = entries(path)
    assert decided["decision"].startswith("deny: ")


@pytest.mark.parametrize(("level", "kept"), [("none", 0), ("basic", 2), ("detailed", 2)])
async def test_a_tool_says_how_much_is_kept(tmp_path: Path, level: str, kept: int) -> None:
    """What it was given and gave is kept in detail only; keys are hidden there too."""
    shop, path = Shop(), tmp_path / "audit.db"
    shop.pay.audit = AuditLevel(level)
    async with Runtime(audit=path) as rt:
        await rt.ask(buyer(shop, calls("pay", amount=3, token=KEY)), "buy")
        await rt.ask(buyer(shop, calls("look")), "look")
    written = [entry for entry in entries(path) if entry["subject"] == "pay"]
    assert len(written) == kept
    assert all(("inputs" in entry) == (level == "detailed") for entry in written[:1])
    assert KEY not in path.read_bytes().decode(errors="replace")


async def test_what_cannot_be_audited_is_not_done() -> None:
    """The decision must be on disk first."""
    shop = Shop()
    async with Runtime(audit=Full()) as rt:
        with pytest.raises(StoreError, match="disk is full"):
            await rt.ask(buyer(shop, calls("pay", amount=3)), "buy")
    assert shop.paid == []


async def test_a_call_that_is_cancelled_is_kept_as_such(tmp_path: Path) -> None:
    """It may have done something."""
    shop, path = Shop(stalls=True), tmp_path / "audit.db"
    async with Runtime(audit=path) as rt:
        asking = asyncio.ensure_future(_ask(rt, shop))
        await shop.begun.wait()
        asking.cancel()
        await asyncio.wait([asking])
    assert entries(path)[-1]["decision"] == "cancelled"


async def _ask(rt: Runtime, shop: Shop) -> None:
    await rt.ask(buyer(shop, calls("pay", amount=3)), "buy")


def test_the_files_of_a_runtime_are_not_writable_in_its_sandbox(tmp_path: Path) -> None:
    """Where they lie in the project: the handles seal them by name, the sandbox mounts them so."""
    names = ["audit.db", "audit.db-wal", "run.db", "run.db.spool", "vega.db"]
    for name in [*names, "other.db"]:
        (tmp_path / name).touch()
    assert sorted(scan_workspace_sync(tmp_path).frozen) == sorted((name,) for name in names)
