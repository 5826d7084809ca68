"""Who plays in `vega demo`: a team that writes release notes, on scripted models.

    release ─┬─ researchers ─── commits, issues, benchmarks    at once
             ├─ writer                                         has a tool
             ├─ reviewer ─── critic                            crashes once
             ├─ illustrator                                    has too small a wallet
             └─ announcer                                      its provider is down for a while

`pace` stretches or shrinks every wait; the open breaker's only so far that a call still meets it.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from vegakit.models import ScriptedAnswer, ScriptedModel
from vegakit.money import dollars
from vegakit.policy import BreakerRule, RetryRule
from vegakit.prices import PriceRow, PriceTier
from vegakit.runtime import Agent, Child, Supervisor
from vegakit.tools import FunctionTool

__all__ = ["BUDGET", "OUTAGE", "SOURCES", "TEAM", "critic", "open_ms", "team"]

TEAM, BUDGET = "release", "$1"
SOURCES = {
    "commits": (214, "commit 4f1c9e fixes how the parser reads nested lists", 1500),
    "issues": (63, "issue: restart loses the message when a child crashes early", 1100),
    "benchmarks": (48, "benchmark spawn: 31 microseconds before, 19 after, on one core", 1300),
}
"""How many lines each researcher reads, what they look like, how many milliseconds it takes."""

OUTAGE = 3
"""As many failures in a row open the breaker."""

_IN, _OUT = dollars(10), dollars(50)
_PRICE = PriceRow("scripted", (PriceTier(_IN, _OUT, cache_read=_IN, cache_write=_IN),))
_ONCE = RetryRule(max_attempts=1)

_FINDINGS = {
    "commits": "Three matter: nested lists, faster spawns, one rename.",
    "issues": "Two old bugs are gone: the lost message, the slow start.",
    "benchmarks": "Spawning takes 19 µs instead of 31; nothing is slower.",
}
_DRAFTS: list[ScriptedAnswer] = [
    {"calls": [{"name": "changelog", "arguments": {"version": "1.3"}}]},
    "1.4: nested lists parse, spawning takes 19 µs.",
    "1.4: a crash loses no message. Spawning takes 19 µs.",
]


def team(review: Callable[[str], Any], pace: float) -> Supervisor:
    researchers = [
        Child(_agent(name, _FINDINGS[name], SOURCES[name][2], pace), wallet="$0.05")
        for name in SOURCES
    ]
    return Supervisor(
        "restart",
        [
            Supervisor("restart", researchers, name="researchers"),
            Child(_writer(pace), wallet="$0.20"),
            Child(review, "reviewer", wallet="$0.05"),
            Child(_agent("illustrator", "A picture.", 900, pace, max_tokens=2000), wallet="$0.01"),
            Child(_announcer(pace), wallet="$0.05"),
        ],
        name=TEAM,
    )


def open_ms(pace: float) -> int:
    """How long the breaker stays open, also for a machine that takes its time."""
    return max(1000, int(1500 * pace))


def critic(pace: float) -> Agent[str]:
    return _agent("critic", ["Lead with what users feel.", "Good. Ship it."], 700, pace)


def _agent(
    name: str,
    script: ScriptedAnswer | list[ScriptedAnswer],
    latency_ms: int,
    pace: float,
    *,
    provider: str = "scripted",
    max_tokens: int = 300,
    **more: Any,  # noqa: ANN401
) -> Agent[str]:
    model = ScriptedModel(script, provider, price=_PRICE, latency_ms=int(latency_ms * pace))
    system = f"You are the {name} of a release team. Be brief."
    return Agent(name, model, system, max_tokens=max_tokens, **more)


def _writer(pace: float) -> Agent[str]:
    async def changelog(version: str) -> str:
        """What the notes of an earlier version said."""
        await asyncio.sleep(0.3 * pace)
        return f"{version}: agents have wallets. Short lines, no adjectives."

    tool = FunctionTool(changelog, repeatable=True)
    return _agent("writer", _DRAFTS, 700, pace, tools=[tool])


def _announcer(pace: float) -> Agent[str]:
    down: list[ScriptedAnswer] = [{"error": "unavailable"}] * OUTAGE
    breaker = BreakerRule(threshold=OUTAGE, reset_after_ms=open_ms(pace))
    script = [*down, "Posted."]
    provider = "scripted:mail"
    return _agent("announcer", script, 400, pace, provider=provider, retry=_ONCE, breaker=breaker)
