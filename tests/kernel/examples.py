"""One example of every operation of the kernel, for all of its doors.

A door's tests walk the table with these. An operation without an example fails them.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tests.patience import PATIENCE_S
from vegakit.control import KERNEL_OPERATIONS, Right
from vegakit.server import TokenRole

__all__ = ["DEFINED", "EXAMPLES", "TWO", "Example", "every_operation", "role_for"]

TWO = {
    "stages": [
        {"name": "plan", "agent": "planner", "default_next": "write"},
        {"name": "write", "agent": "writer"},
    ]
}
FAST = {"model": "fast"}
DEFINED = TWO | {"agents": {"planner": FAST, "writer": FAST}}
_DIGEST = "0" * 32


class Example(NamedTuple):
    """A request about what `every_operation` has made, and what another tenant sees of it: nothing
    of that name, or an empty reply with these fields; or it makes something of its own."""

    fields: dict[str, Any]
    elsewhere: dict[str, Any] | None = None
    makes_its_own: bool = False


EXAMPLES: dict[str, Example] = {
    "create_process": Example({}, makes_its_own=True),
    "submit": Example({}, makes_its_own=True),
    "get_process": Example({"pid": "b"}),
    "schedule_process": Example({"pid": "b"}),
    "get_next_runnable": Example({"holder": "w"}, {"process": None}),
    "renew_process": Example({"pid": "b", "holder": "w"}),
    "transition_state": Example({"pid": "b", "to": "terminated"}),
    "terminate_process": Example({"pid": "b"}),
    "check_quota": Example({"pid": "b"}),
    "record_usage": Example({"pid": "b", "usage": {"model_calls": 1}}),
    "list_processes": Example({}, {"processes": []}),
    "get_process_counts": Example({}, {"total": 0}),
    "get_system_status": Example({}, {"pending_interrupts": 0}),
    "create_interrupt": Example({"pid": "b", "kind": "timeout", "question": "?"}),
    "resolve_interrupt": Example({"id": "q1", "answer": {"type": "Replied"}}),
    "use_approval": Example({"id": "q3", "action": _DIGEST}),
    "cancel_interrupt": Example({"id": "q1"}),
    "get_interrupt": Example({"id": "q1"}),
    "get_pending_interrupt": Example({"pid": "b"}),
    "list_interrupts": Example({}, {"interrupts": []}),
    "watch_events": Example({}, {}),
    "create_envelope": Example({}, makes_its_own=True),
    "get_envelope": Example({"id": "e"}),
    "update_envelope": Example({"id": "e", "version": 2}),
    "clone_envelope": Example({"id": "e"}),
    "initialize_session": Example({"pid": "b", "pipeline": TWO}),
    "get_next_instruction": Example({"pid": "b"}),
    "report_agent_result": Example(
        {"pid": "b", "task": "t", "outcome": {"type": "StageCompleted"}}
    ),
    "renew_task": Example({"pid": "b", "task": "plan#1"}),
    "get_session_state": Example({"pid": "b"}),
    "terminate_session": Example({"pid": "b"}),
    "forget_session": Example({"pid": "b"}),
    "get_request_status": Example({"pid": "b"}),
    "get_remaining": Example({"pid": "b"}),
    "check_bounds": Example({"pid": "b"}),
    "check_rate_limit": Example({}, makes_its_own=True),
    "register_service": Example({"name": "s"}, makes_its_own=True),
    "unregister_service": Example({"name": "s"}),
    "update_health": Example({"name": "s"}),
    "get_service": Example({"name": "s"}),
    "list_services": Example({}, {"services": []}),
    "get_service_stats": Example({}, {"services": 0}),
    "dispatch": Example({"service": "s"}),
    "take_request": Example({"service": "s", "holder": "w"}),
    "renew_request": Example({"id": "r1", "holder": "w"}),
    "complete_request": Example({"id": "r1", "holder": "w"}),
    "execute_pipeline": Example({"pid": "c"}),
    "execute_agent": Example({"pid": "b", "agent": "a", "prompt": "?", "definition": FAST}),
    "dispatch_inference": Example({"pid": "b", "model": "fast", "prompt": "?"}),
    "list_tenants": Example({}),
    "get_tenant_budget": Example({"tenant": "acme"}),
    "set_tenant_budget": Example({"tenant": "acme", "budget": "$9"}),
    "get_budget": Example({}, {"tenant": "other", "is_set": None}),
    "publish": Example({"topic": "t"}, makes_its_own=True),
    "subscribe": Example({"topic": "t", "follow": False}, {}),
    "send": Example({"topic": "t"}, makes_its_own=True),
    "query": Example({"topic": "t", "wait_ms": 1}, makes_its_own=True),
    "take_command": Example({"topic": "t", "holder": "w"}, {"command": None}),
    "renew_command": Example({"id": "c1", "holder": "w", "attempt": 1}),
    "answer_command": Example({"id": "c1", "holder": "w", "attempt": 1}),
    "get_command": Example({"id": "c1"}),
}


def role_for(name: str) -> TokenRole:
    """Whose operation it is: an operator's, unless it is for whoever administers."""
    is_admin = KERNEL_OPERATIONS[name].right is Right.ADMINISTER
    return TokenRole.ADMIN if is_admin else TokenRole.OPERATOR


def every_operation(
    call: Callable[..., tuple[int, Any]], admin: Callable[..., tuple[int, Any]]
) -> dict[str, Any]:
    """Walk processes through all there is but streams; return what each operation replied. What the
    table says may be repeated is called twice."""
    replies: dict[str, Any] = {}

    def do(name: str, /, **fields: object) -> Any:
        may = admin if role_for(name) is TokenRole.ADMIN else call
        for _ in range(1 + KERNEL_OPERATIONS[name].idempotent):
            status, replies[name] = may(name, **fields)
            assert status == 200, (name, replies[name])
        return replies[name]

    do("create_process", pid="a", request="r1")
    do("schedule_process", pid="a")
    assert do("get_next_runnable", holder="w")["process"]["pid"] == "a"
    assert do("get_process", pid="a")["holder"] == "w"
    do("renew_process", pid="a", holder="w")
    assert do("transition_state", pid="a", to="waiting")["state"] == "waiting"
    do("record_usage", pid="a", usage={"model_calls": 2})
    do("check_quota", pid="a")
    do("submit", pid="b", quota={"model_calls": 5})
    question = {"pid": "b", "kind": "clarification", "question": "Which?"}
    do("create_interrupt", id="q1", **question)
    do("create_interrupt", id="q2", **question)
    assert do("get_pending_interrupt", pid="b")["interrupt"]["interrupt"]["ask"]["id"] == "q1"
    assert len(do("list_interrupts", pid="b")["interrupts"]) == 2
    do("resolve_interrupt", id="q1", answer={"type": "Replied", "value": "the first"})
    assert do("get_interrupt", id="q1")["interrupt"]["status"] == "resolved"
    do("cancel_interrupt", id="q2")
    approval = {"pid": "b", "kind": "confirmation", "question": "May I?", "action": _DIGEST}
    do("create_interrupt", id="q3", **approval)
    do("resolve_interrupt", id="q3", answer={"type": "Approved"}, action=_DIGEST)
    assert do("use_approval", id="q3", action=_DIGEST)["interrupt"]["used_ms"]
    reply = do("initialize_session", pid="b", pipeline=TWO, input="hello")
    [task] = reply["instruction"]["tasks"]
    do("get_next_instruction", pid="b")
    do("renew_task", pid="b", task=task["id"])
    done = {"type": "StageCompleted", "output": "a plan"}
    reply = do("report_agent_result", pid="b", task=task["id"], outcome=done)
    assert reply["envelope"]["outputs"] == {"plan": "a plan"}
    do("get_session_state", pid="b")
    do("terminate_session", pid="b")
    do("create_envelope", id="e", input=[1])
    do("update_envelope", id="e", version=1, outputs={"x": 1})
    do("clone_envelope", id="e")
    assert do("get_envelope", id="e")["outputs"] == {"x": 1}
    _services(call, do)
    do("check_rate_limit", wanted=2)
    do("get_remaining", pid="b")
    do("check_bounds", pid="b")
    do("get_request_status", pid="b")
    do("forget_session", pid="b")
    do("terminate_process", pid="a")
    assert len(do("list_processes")["processes"]) == 2
    assert do("get_process_counts")["total"] == 2
    assert do("get_system_status")["processes"]["total"] == 2
    do("execute_agent", agent="a", prompt="Hello", definition=FAST)
    assert do("dispatch_inference", model="fast", prompt="Hello")["text"] == "done"
    assert do("set_tenant_budget", tenant="acme", budget="$2/day")["remaining"] <= 2 * 10**9
    assert do("get_tenant_budget", tenant="acme") == do("get_budget")
    known = {
        one["tenant"]: one["budget"] for one in do("list_tenants")["tenants"] if "budget" in one
    }
    assert known["acme"] == do("get_budget")["budget"] == "$2/day"
    do("publish", topic="t", message={"n": 1})
    do("send", topic="t", id="c1", body=[1])
    command = do("take_command", topic="t", holder="w")["command"]
    held = {"id": "c1", "holder": "w", "attempt": command["attempt"]}
    do("renew_command", **held)
    assert do("answer_command", **held, answer="ok")["status"] == "done"
    assert do("get_command", id="c1")["answer"] == "ok"
    assert do("query", topic="t", wait_ms=1)["status"] == "expired"
    return replies


def _services(call: Callable[..., tuple[int, Any]], do: Callable[..., Any]) -> None:
    """Register a service, ask it, and work for it."""
    do("register_service", name="s", capabilities=["cut"])
    do("update_health", name="s", health="healthy")
    assert do("get_service", name="s")["service"]["health"] == "healthy"
    assert len(do("list_services", capability="cut")["services"]) == 1
    assert do("get_service_stats")["capacity"] == 1
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(call, "dispatch", capability="cut", id="r1")
        assert do("take_request", service="s", holder="w", wait_ms=30_000)["call"]["id"] == "r1"
        do("renew_request", id="r1", holder="w")
        do("complete_request", id="r1", holder="w", response={"metadata": {"ok": True}})
        status, reply = asked.result(PATIENCE_S)
        assert (status, reply["response"]["metadata"]) == (200, {"ok": True})
    assert do("dispatch", capability="cut", id="r1") == reply
    do("register_service", name="gone")
    do("unregister_service", name="gone")
