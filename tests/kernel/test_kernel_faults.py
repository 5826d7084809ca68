"""Faults planted in the kernel, each found by the test that holds what it breaks."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext

import pytest
from _pytest.outcomes import Failed

from tests.kernel import test_grpc, test_http, test_interrupts, test_processes, test_sessions
from vegakit.kernel import interrupts, kernel, processes, sessions
from vegakit.server import ROLES, TokenRole, admission, grpc_door, kernel_app, protobuf


def nothing(*_: object, **__: object) -> None:
    """What should have been done is not."""


def any_right(name: str, offered: dict[str, object], _rights: object) -> object:
    return offered[name]


FAULTS: dict[str, tuple[object, str, object, Callable[[], Awaitable[None]]]] = {
    "a report is not counted": (
        sessions,
        "_count",
        nothing,
        test_sessions.test_a_session_fills_its_envelope_and_tells_its_steps,
    ),
    "tasks go out above the quota": (
        sessions,
        "_over_quota",
        lambda *_: False,
        test_sessions.test_a_session_fills_its_envelope_and_tells_its_steps,
    ),
    "a stage may wait for anything": (
        sessions,
        "_question",
        nothing,
        test_sessions.test_a_stage_waits_for_a_question_of_its_own_process_only,
    ),
    "what is due is not carried out": (
        kernel,
        "_DUE",
        (),
        test_processes.test_a_process_whose_holder_is_gone_is_ready_again,
    ),
    "a process passes its question": (
        processes,
        "_check_not_held",
        nothing,
        test_interrupts.test_nobody_moves_a_process_past_its_question,
    ),
    "one of two questions frees a process": (
        interrupts,
        "_others",
        lambda *_: [],
        test_interrupts.test_a_process_goes_on_when_no_question_holds_it_any_more,
    ),
    "a session outlives its process": (
        processes,
        "end_with_process",
        nothing,
        test_sessions.test_a_session_ends_when_it_is_idle_or_its_process_ends,
    ),
    "a door does not look at rights": (
        admission,
        "select",
        any_right,
        lambda: test_http.test_every_operation_refuses_whom_and_what_it_must("submit"),
    ),
    "gRPC does not look at rights": (
        admission,
        "select",
        any_right,
        test_grpc.test_every_operation_refuses_whom_and_what_it_must,
    ),
    "a worker may answer for people": (
        ROLES,
        TokenRole.WORKER,
        ROLES[TokenRole.OPERATOR],
        lambda: test_http.test_every_operation_refuses_whom_and_what_it_must("resolve_interrupt"),
    ),
    "a cursor is forgotten": (
        kernel_app,
        "_resumed",
        lambda request, _: request,
        test_http.test_a_client_that_comes_back_goes_on_from_its_cursor,
    ),
    "gRPC takes calls without a deadline": (
        grpc_door,
        "_seconds",
        lambda *_: 10.0,
        test_grpc.test_every_operation_refuses_whom_and_what_it_must,
    ),
    "gRPC takes the first of two tokens": (
        grpc_door,
        "_authorization",
        lambda context: dict(reversed(context.invocation_metadata())).get("authorization", ""),
        test_grpc.test_every_operation_refuses_whom_and_what_it_must,
    ),
    "gRPC passes over fields that it does not know": (
        protobuf,
        "UnknownFieldSet",
        lambda _: (),
        test_grpc.test_every_operation_refuses_whom_and_what_it_must,
    ),
    "a door does not count": (
        admission.Admission,
        "counted",
        lambda *_: nullcontext(),
        test_grpc.test_a_tenant_leaves_room_for_others_and_a_client_that_goes_its_place,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, broken, test = FAULTS[fault]
    await test()
    if isinstance(place, dict):
        monkeypatch.setitem(place, name, broken)
    else:
        monkeypatch.setattr(place, name, broken)
    with pytest.raises((AssertionError, Failed)):
        await test()
