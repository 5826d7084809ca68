"""Agents as a program declares them, made into agents of the runtime."""

from collections.abc import Mapping
from typing import Any

from vegakit.errors import ErrorClass
from vegakit.lang import AgentSpec
from vegakit.money import Money, show
from vegakit.policy import Backoff, BreakerRule, Rate, RateRule, RateStrategy, Resend, RetryRule
from vegakit.ports import Tool
from vegakit.runtime.agents import Agent

__all__ = ["agent_of"]

_PRIORITIES = {"realtime": 0, "high": 1, "normal": 2, "low": 3, "idle": 4}


def agent_of(spec: AgentSpec, tools: Mapping[str, Tool], *, memory: bool) -> Agent[str]:
    more: dict[str, Any] = {}
    if spec.max_steps is not None:
        more["max_steps"] = spec.max_steps
    if spec.rate_limit is not None:
        more["rate"] = _rate(spec.rate_limit)
    if spec.circuit_breaker is not None:
        more["breaker"] = _breaker(spec.circuit_breaker)
    if spec.retry is not None:
        more["retry"] = _retry(spec.retry)
    return Agent(
        spec.name,
        spec.model,
        spec.system,
        tools=tuple(tools.values()),
        budget=None if spec.budget is None else show(Money(spec.budget)).replace(",", ""),
        max_tokens=spec.max_tokens,
        temperature=spec.temperature,
        memory="conversation" if memory else None,
        priority=_PRIORITIES.get(spec.priority, 2),
        timeout=None if spec.timeout_ms is None else spec.timeout_ms / 1000,
        **more,
    )


def _retry(settings: Mapping[str, Any]) -> RetryRule:
    rule = RetryRule()
    return RetryRule(
        settings.get("max_attempts", rule.max_attempts),
        _backoff(settings.get("backoff")),
        tuple(ErrorClass(name) for name in settings.get("on", rule.on)),
        resend_unknown=Resend(settings.get("resend_unknown", rule.resend_unknown)),
    )


def _backoff(written: list[Any] | None) -> Backoff:
    """`exponential(base, factor, max)`, or `constant(delay)`."""
    if written is None:
        return Backoff()
    kind, initial_ms, *rest = written
    if kind == "constant":
        return Backoff(initial_ms, 1.0, initial_ms)
    given = dict(zip(("factor", "max_ms"), rest, strict=False))
    return Backoff(initial_ms, float(given.get("factor", 2.0)), int(given.get("max_ms", 5_000)))


def _breaker(settings: Mapping[str, Any]) -> BreakerRule:
    rule = BreakerRule()
    return BreakerRule(
        settings.get("threshold", rule.threshold),
        settings.get("reset_after", rule.reset_after_ms),
        settings.get("probes", rule.probes),
    )


def _rate(settings: Mapping[str, Any]) -> RateRule:
    requests = settings.get("requests")
    rate = None
    if requests is not None:
        rate = Rate(requests, settings.get("per", 60_000), settings.get("burst", requests))
    strategy = settings.get("strategy", RateStrategy.QUEUE)
    return RateRule(rate, slots=settings.get("slots"), strategy=RateStrategy(strategy))
