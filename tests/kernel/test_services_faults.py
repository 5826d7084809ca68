"""Faults planted in services, dispatch, rates and listeners, each found by what it breaks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from _pytest.outcomes import Failed
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.kernel import test_services, test_services_properties, test_status
from vegakit.control import OperationError
from vegakit.errors import BugError
from vegakit.kernel import handlers, kernel, services, status
from vegakit.policy import Service, ServiceFacts, UserRate, services as service_rules


def nothing(*_: object, **__: object) -> None:
    """What should have been done is not."""


def first_of_all(able: Any, capability: str, now: int) -> Any:
    """The first that is able, however loaded."""
    found = [one for one in able if one.can_accept and capability in one.facts.capabilities]
    return found[0] if found else None


def anybody_holds(tables: Any, key: str, holder: str) -> Any:
    return tables.need(services.CALL, key)


async def against_the_model() -> None:
    """Fails with what the model sees, in a thread of its own: it runs its own loop."""

    def run() -> None:
        run_state_machine_as_test(
            test_services_properties.KernelAgainstModel,
            settings=settings(max_examples=60, phases=[Phase.generate]),
        )

    await asyncio.to_thread(run)


def moved_without_release(tables: Any, call: Any, source: Any, target: Any) -> None:
    slots = dict(source.slots)
    _MOVE(tables, call, source, target)
    source.slots.update(slots)


_MOVE = services._move  # pyright: ignore[reportPrivateUsage]

FAULTS: dict[str, tuple[object, str, object, Callable[[], Awaitable[None]]]] = {
    "a service takes more than it can": (
        Service,
        "can_accept",
        property(lambda _: True),
        test_services.test_the_least_loaded_healthy_service_is_asked_then_a_degraded_one_to_its_half,
    ),
    "a degraded service has all of its slots": (
        ServiceFacts,
        "room",
        property(lambda facts: facts.max_concurrent * (facts.health in ("healthy", "degraded"))),
        test_services.test_the_least_loaded_healthy_service_is_asked_then_a_degraded_one_to_its_half,
    ),
    "an ill service is asked": (
        service_rules,
        "_HALVES",
        dict.fromkeys(service_rules.ServiceHealth, 2),
        test_services.test_the_least_loaded_healthy_service_is_asked_then_a_degraded_one_to_its_half,
    ),
    "load does not decide": (services, "choose_service", first_of_all, against_the_model),
    "a slot is not given back": (
        Service,
        "release_slot",
        nothing,
        test_services.test_a_request_is_done_and_its_slot_comes_back,
    ),
    "a slot is left behind by a move": (
        services,
        "_move",
        moved_without_release,
        test_services.test_requests_that_wait_leave_a_service_that_takes_no_more,
    ),
    "a late completion is taken": (
        services,
        "_held",
        anybody_holds,
        test_services.test_a_request_whose_holder_died_is_handed_out_again_and_the_late_one_refused,
    ),
    "a service that says nothing stays": (
        Service,
        "is_there",
        lambda *_: True,
        test_services.test_a_service_that_says_nothing_is_gone_and_its_requests_go_to_others,
    ),
    "what is due is not carried out": (
        kernel,
        "_DUE",
        (),
        test_services.test_a_request_whose_holder_died_is_handed_out_again_and_the_late_one_refused,
    ),
    "taking requests is no sign of life": (
        services,
        "_has_to_check_in",
        lambda *_: False,
        test_services.test_signs_of_life_keep_a_service,
    ),
    "a request that kills is handed out for ever": (
        services,
        "MOST_TAKEN",
        1_000,
        test_services.test_a_request_that_kills_its_holders_is_given_up,
    ),
    "a handler's lease is not renewed": (
        handlers,
        "_RENEW_MS",
        1 << 40,
        test_services.test_a_handler_that_works_long_keeps_its_request_until_the_deadline,
    ),
    "a handler runs at its own server only": (
        handlers,
        "queued_at",
        lambda _: "nothing",
        test_services.test_a_handler_is_pulled_from_another_server,
    ),
    "rates are not counted": (
        UserRate,
        "take",
        UserRate.check,
        test_status.test_a_users_rate_is_limited_and_given_back,
    ),
    "a running session is forgotten": (
        status,
        "forget_session",
        lambda tables, pid: tables.need(status.SESSION, pid),
        test_status.test_a_session_that_has_ended_is_forgotten_and_another_begun,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, broken, test = FAULTS[fault]
    if test is not against_the_model:  # which has run by itself
        await test()
    monkeypatch.setattr(place, name, broken)
    with pytest.raises((AssertionError, Failed, BugError, OperationError, TimeoutError)):
        # A request that should have been refused waits: here that is a usual end.
        await asyncio.wait_for(test(), 60 if test is against_the_model else 2)
