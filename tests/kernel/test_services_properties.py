"""Services, requests and time at random, against a naive model that counts by hand.

Every call is answered by a new kernel on the same store, as if the one before had been killed. The
model has lists of services and requests and no slots: what a service has is the requests that name
it and are not done, counted anew each time. So a slot that is lost or left behind is a difference.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.kernel.kernels import ANN, Bench
from vegakit.control import (
    CompleteCallRequest,
    DispatchRequest,
    OperationError,
    RegisterServiceRequest,
    RenewCallRequest,
    ServiceCall,
    ServiceNameRequest,
    ServiceOutcome,
    ServiceResponse,
    TakeCallRequest,
    UpdateHealthRequest,
)
from vegakit.kernel import services
from vegakit.kernel.tables import CALL, SERVICE
from vegakit.policy import ServiceHealth

NAMES = st.sampled_from(["a", "b", "c"])
SKILLS = st.sampled_from(["cut", "sew"])
HEALTHS = st.sampled_from([ServiceHealth.HEALTHY] * 2 + list(ServiceHealth))
TIMES = st.sampled_from([1, 4, 12])
MOST_TAKEN = 5


@dataclass
class ModelService:
    most: int
    skills: tuple[str, ...]
    health: ServiceHealth
    ttl: int | None
    seen: int


@dataclass
class ModelRequest:
    at: str
    skill: str
    deadline: int
    holder: str = ""
    lease: int = 0
    takers: list[str] = field(default_factory=list[str])
    end: str = ""


class Model:
    """Does everything the slow way."""

    def __init__(self) -> None:
        self.services: dict[str, ModelService] = {}
        self.requests: dict[str, ModelRequest] = {}
        self.order: dict[str, list[str]] = {name: [] for name in "abc"}
        """The requests of each service, as they came to it."""

    def load(self, name: str) -> int:
        return sum(one.at == name and not one.end for one in self.requests.values())

    def living(self, name: str, now: int) -> bool:
        one = self.services.get(name)
        return one is not None and (one.ttl is None or now < one.seen + one.ttl)

    def accepts(self, name: str, now: int) -> bool:
        one = self.services.get(name)
        if one is None or not self.living(name, now):
            return False
        room = {ServiceHealth.HEALTHY: one.most, ServiceHealth.DEGRADED: one.most // 2}
        return self.load(name) < room.get(one.health, 0)

    def best(self, skill: str, now: int, but: str = "") -> str | None:
        able = [
            (one.health is not ServiceHealth.HEALTHY, self.load(name) / one.most, name)
            for name, one in self.services.items()
            if name != but and skill in one.skills and self.accepts(name, now)
        ]
        return min(able)[2] if able else None

    def leave(self, name: str, now: int, gone: bool) -> None:
        """The requests of a service go elsewhere: those that wait, or all of one that is gone, in
        the order in which they came there, as the kernel keeps it."""
        for key in self.order[name][:]:
            one = self.requests[key]
            if one.end or (one.holder and not gone):
                continue
            other = self.best(one.skill, now, name) if one.skill else None
            spent = gone and (len(one.takers) >= MOST_TAKEN or one.deadline <= now)
            if other is not None and not spent:
                one.at, one.holder = other, ""
                self.order[name].remove(key)
                self.order.setdefault(other, []).append(key)
            elif gone:
                one.end = "lost"


class KernelAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench, self.runner, self.model = Bench(), asyncio.Runner(), Model()
        self.made = self.said = 0

    def teardown(self) -> None:
        self.runner.close()

    @property
    def now(self) -> int:
        return self.bench.clock.now()

    def do(self, name: str, request: object) -> Any:
        """What an operation replies; None if it is refused."""
        try:
            return self.runner.run(getattr(self.bench.of(), name)(request))
        except OperationError:
            return None

    @rule(
        name=NAMES,
        most=st.integers(1, 4),
        skills=st.sets(SKILLS, min_size=1),
        health=HEALTHS,
        ttl=st.sampled_from([None, 15, 40]),
    )
    def register(
        self, name: str, most: int, skills: set[str], health: ServiceHealth, ttl: int | None
    ) -> None:
        able = tuple(sorted(skills))
        self.do(
            "register_service",
            RegisterServiceRequest(
                name, capabilities=able, max_concurrent=most, health=health, ttl_ms=ttl or 0
            ),
        )
        self.model.services[name] = ModelService(most, able, health, ttl, self.now)

    @rule(name=NAMES)
    def unregister(self, name: str) -> None:
        done = self.do("unregister_service", ServiceNameRequest(name))
        assert (done is not None) == self.model.living(name, self.now)
        if done is not None:
            self.model.leave(name, self.now, gone=True)
            del self.model.services[name]
            self.model.order[name] = []

    @rule(name=NAMES, health=HEALTHS)
    def say_health(self, name: str, health: ServiceHealth) -> None:
        done = self.do("update_health", UpdateHealthRequest(name, health))
        assert (done is not None) == self.model.living(name, self.now)
        if done is not None:
            one = self.model.services[name]
            one.health, one.seen = health, self.now
            room = {ServiceHealth.HEALTHY: one.most, ServiceHealth.DEGRADED: one.most // 2}
            if not room.get(health, 0):
                self.model.leave(name, self.now, gone=False)

    @rule(skill=SKILLS, name=NAMES, by_name=st.booleans(), timeout=st.sampled_from([6, 20, 500]))
    def dispatch(self, skill: str, name: str, by_name: bool, timeout: int) -> None:
        """The server is killed as soon as it has placed the request."""
        key = f"r{self.made}"
        self.made += 1
        request = DispatchRequest(
            name if by_name else "", "" if by_name else skill, id=key, timeout_ms=timeout
        )
        wanted = self.model.best(skill, self.now)
        if by_name:
            wanted = name if self.model.accepts(name, self.now) else None
        kernel = self.bench.kernel()
        try:
            call = self.runner.run(
                kernel.transact(ANN.tenant, lambda it: services.place(it, request, key))
            )
        except OperationError:
            assert wanted is None
            return
        assert wanted is not None
        assert call.service == wanted
        view = self.do("get_service", ServiceNameRequest(wanted))
        assert view.load <= view.service.max_concurrent
        deadline = self.now + timeout
        self.model.requests[key] = ModelRequest(wanted, "" if by_name else skill, deadline)
        self.model.order[wanted].append(key)

    @rule(name=NAMES, worker=st.sampled_from(["v", "w"]), lease=st.sampled_from([3, 14]))
    def take(self, name: str, worker: str, lease: int) -> None:
        reply = self.do("take_request", TakeCallRequest(name, worker, lease))
        assert (reply is not None) == self.model.living(name, self.now)
        if reply is None:
            return
        service = self.model.services[name]
        if service.ttl is not None and self.now - service.seen > service.ttl // 3:
            service.seen = self.now
        waits = [
            (one.deadline, key)
            for key, one in self.model.requests.items()
            if one.at == name and not one.end and not one.holder and one.deadline > self.now
        ]
        call: ServiceCall | None = reply.call
        assert (call.id if call else None) == (min(waits)[1] if waits else None)
        if call is not None:
            one = self.model.requests[call.id]
            one.holder, one.lease = worker, min(self.now + lease, one.deadline)
            one.takers.append(worker)

    @rule(pick=st.integers(0, 99), worker=st.sampled_from(["v", "w"]), fails=st.booleans())
    def complete(self, pick: int, worker: str, fails: bool) -> None:
        if not self.made:
            return
        key = f"r{pick % self.made}"
        one = self.model.requests.get(key)
        holds = one is not None and not one.end and one.holder == worker and self.now < one.lease
        self.said += 1
        # Each says something else: what was said before is not taken for this.
        response = ServiceResponse(error="no" if fails else "", metadata={"n": self.said})
        done = self.do("complete_request", CompleteCallRequest(key, worker, response))
        assert (done is not None) == holds
        if one is not None and holds:
            one.end = "failed" if fails else "completed"

    @rule(pick=st.integers(0, 99), worker=st.sampled_from(["v", "w"]))
    def renew(self, pick: int, worker: str) -> None:
        if not self.made:
            return
        key = f"r{pick % self.made}"
        one = self.model.requests.get(key)
        holds = one is not None and not one.end and one.holder == worker and self.now < one.lease
        done = self.do("renew_request", RenewCallRequest(key, worker, 6))
        assert (done is not None) == holds
        if one is not None and holds:
            one.lease = min(self.now + 6, one.deadline)

    @rule(ms=TIMES)
    def time_passes(self, ms: int) -> None:
        """A millisecond at a time, so that the model need not know what comes before what."""
        for _ in range(ms):
            self.bench.clock.advance(1)
            self.runner.run(self.bench.kernel().sweep())
            self.pass_in_model()

    def pass_in_model(self) -> None:
        # By health, then by the time at which it was due, as one sweep asks for them.
        order = list(ServiceHealth)
        due = [
            (order.index(one.health), self.due_of(name), name)
            for name, one in self.model.services.items()
            if self.due_of(name) <= self.now
        ]
        for _, _, name in sorted(due):
            if not self.model.living(name, self.now):
                self.model.leave(name, self.now, gone=True)
                del self.model.services[name]
                self.model.order[name] = []
                continue
            for one in self.model.requests.values():
                if one.at != name or one.end:
                    continue
                if one.deadline <= self.now:
                    one.end = "late"
                elif one.holder and one.lease <= self.now:
                    one.end = "lost" if len(one.takers) >= MOST_TAKEN else ""
                    one.holder = ""

    def due_of(self, name: str) -> int:
        one = self.model.services[name]
        times = [
            request.lease if request.holder else request.deadline
            for request in self.model.requests.values()
            if request.at == name and not request.end
        ]
        if one.ttl is not None:
            times.append(one.seen + one.ttl)
        return min(times, default=1 << 60)

    @invariant()
    def they_agree(self) -> None:
        there = self.runner.run(
            self.bench.kernel().read(
                ANN.tenant,
                lambda it: (it.find(SERVICE)[0], it.find(CALL, limit=1_000)[0]),
            )
        )
        found_services, calls = there
        assert {one.facts.name for one in found_services} == {*self.model.services}
        for one in found_services:
            name = one.facts.name
            open_ = {call.id for call in calls if call.service == name and call.outcome is None}
            assert {*one.slots} == open_, (
                "a slot is of a request that is not done, and each has one"
            )
            assert one.load == self.model.load(name)
        for call in calls:
            wanted = self.model.requests[call.id]
            assert (call.service, call.outcome or "") == (wanted.at, wanted.end)
            if call.outcome is None:
                assert call.holder == wanted.holder
        ends = [call.outcome for call in calls if call.outcome is not None]
        assert all(isinstance(end, ServiceOutcome) for end in ends)


KernelAgainstModel.TestCase.settings = settings(stateful_step_count=25)
TestKernelAgainstModel = KernelAgainstModel.TestCase
