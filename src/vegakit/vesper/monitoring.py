"""A rollout tells each decision as an event and to a webhook, and serves its counts as metrics.

    decision ──▶ log, trace event ──▶ on_change ──▶ webhook: a queue, sent behind the calls

Nobody waits for a webhook. It is tried a few times, each for a few seconds; what cannot be told
then is in the log, and the decision is in the store in any case. It reaches the host of its own URL
and no other, by the rules that tools are held to.
"""

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from vegakit.concurrency import cancel_all
from vegakit.contracts import LAST, STAGES, DetectionDelay, Rollout, RolloutMode, StageChange
from vegakit.errors import CapabilityDenied, InvalidRuleError, UserError, VegaError
from vegakit.events import CallKind
from vegakit.policy import Backoff, Denied, Grant, parse_url
from vegakit.ports import Clock
from vegakit.records import digest128, to_json
from vegakit.sdk import Runtime
from vegakit.telemetry import Histogram, Metric, MetricSample, Redactor
from vegakit.tools import Http
from vegakit.vesper.evidence import RolloutEvidence, key_of
from vegakit.vesper.paths import CallInputs, ExecutionPath, PathAnswer, PerformedCall, ToolLog

T = TypeVar("T")

_REDACTOR = Redactor()
"""Hides what is of the format of a key: people write reasons."""
_log = logging.getLogger(__name__)


# A decision in words.


class RolloutAlert(Struct, frozen=True):
    """A decision, as it is told. `text` says it in a line; `id` is the same if it comes twice.
    `detection` comes with the last promotion: how long faults stay unseen from then on."""

    id: str
    at: str
    rollout: str
    version: str
    input_class: str
    before: RolloutMode
    after: RolloutMode
    is_promotion: bool
    reason: str
    by: str
    runs: int
    failures: int
    text: str
    detection: tuple[DetectionDelay, ...] = ()
    detection_text: str = ""


def alert_of(machine: Rollout, change: StageChange, now_ms: int) -> RolloutAlert:
    """Return what is told of a decision that the machine has made."""
    evidence, before, after = machine.evidence, STAGES[change.before], STAGES[change.after]
    key = key_of(machine.name, evidence.version, evidence.input_class)
    is_last = change.is_promotion and change.after == LAST
    detection = machine.detection() if is_last else ()
    reason, by = _REDACTOR.redact(change.reason), _REDACTOR.redact(change.by)
    word = "promoted to" if change.is_promotion else "demoted to" if change.after else "stopped at"
    word = "stays at" if change.after == change.before else word
    of_class = f" for {evidence.input_class}" if evidence.input_class else ""
    who = f", by {by}" if by else ""
    text = f"rollout {machine.name}{of_class}: {word} {stage_name(change.after)}{who}: {reason}"
    return RolloutAlert(
        digest128([key, now_ms, change.before, change.after])[:16],
        datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        machine.name,
        evidence.version,
        evidence.input_class,
        before.mode,
        after.mode,
        change.is_promotion,
        reason,
        by,
        evidence.production.runs,
        evidence.production.failures,
        text,
        detection,
        detection_text(detection, machine) if detection else "",
    )


def stage_name(stage: int) -> str:
    """Return a stage as people call it: a mode, with its share where it has several."""
    mode, share = STAGES[stage].mode, STAGES[stage].candidate_share
    return f"{mode} {percent(share)}" if mode is RolloutMode.CANARY else str(mode)


def percent(share: float) -> str:
    """Return a share of calls as people read it."""
    return f"{100 * share:.4g} %"


def detection_text(delays: Sequence[DetectionDelay], machine: Rollout) -> str:
    """Return in a line how long faults stay unseen at the last stage."""
    times = [
        f"a fault in {percent(each.fault)} of calls "
        + ("is never found" if each.calls is None else f"is found after {each.calls:,} calls")
        for each in delays
    ]
    how = "typically" if machine.is_noisy else "in 95 of 100 cases"
    return f"with {percent(machine.rule.sample)} of calls compared, {how}: {', '.join(times)}"


class RolloutAlerts:
    """Tells the decisions of one rollout."""

    def __init__(
        self,
        runtime: Runtime,
        on_change: Callable[[StageChange], object],
        webhook: str | None,
    ) -> None:
        self._tracer, self._clock, self._on_change = runtime.tracer, runtime.clock, on_change
        self._outages: set[str] = set()
        """Input classes whose outage is told, and not over."""
        self._webhook = None if webhook is None else Webhook(webhook, runtime.clock)

    def tell(self, machine: Rollout, change: StageChange) -> None:
        """Tell a decision that is in the store; nothing is waited for."""
        self._send(alert_of(machine, change, self._clock.now()))
        self._on_change(change)

    def watch_outage(self, machine: Rollout) -> None:
        """Tell that a candidate often cannot be asked: once, until that is over. It is no decision,
        so nobody is told of a change."""
        word = machine.evidence.input_class
        if not machine.unavailable_because:
            self._outages.discard(word)
        elif word not in self._outages:
            self._outages.add(word)
            stays = StageChange(machine.stage, machine.stage, machine.unavailable_because)
            self._send(alert_of(machine, stays, self._clock.now()))

    def _send(self, alert: RolloutAlert) -> None:
        said = "; ".join(filter(None, [alert.text, alert.detection_text]))
        _log.log(logging.INFO if alert.is_promotion else logging.WARNING, "%s", said)
        event = self._tracer.begin(CallKind.EVENT, said)
        event.attributes |= {
            "sir.node_id": alert.rollout,
            "sir.execution_path": str(alert.after),
            "rollout.before": str(alert.before),
            "rollout.by": alert.by,
            "rollout.runs": alert.runs,
        }
        self._tracer.end(event)
        if self._webhook is not None:
            self._webhook.send(alert)

    async def aclose(self, *, waits: bool) -> None:
        """End the telling; with `waits`, what is in flight has its time."""
        if self._webhook is not None:
            await self._webhook.aclose(waits=waits)


# The webhook: one sender, in the order of the decisions.

TRIES = 3
TIMEOUT_MS = 5_000
"""Of one try, from the lookup of the host to the last byte of its answer."""
MAX_UNSENT = 100
"""Alerts that wait for their turn; more of them are dropped, the oldest first, with a warning."""
CLOSE_S = 20.0
"""How long one that closes waits for what is not sent yet."""
_BACKOFF = Backoff(initial_ms=500, factor=4.0, max_ms=5_000)
_MAX_BYTES = 100_000
_AGAIN = frozenset({408, 425, 429})
_HTTPS = 443
_SHOWN = 80
"""The HTTP client says no more of a URL than this."""


class Webhook:
    """Posts alerts as JSON to a URL."""

    def __init__(self, url: str, clock: Clock) -> None:
        wanted = parse_url("POST", url)
        if isinstance(wanted, Denied):
            raise UserError(f"the webhook is no URL that can be posted to: {wanted.reason}")
        # A path of a webhook is often its secret: people are told the host alone.
        self.host = wanted.host if wanted.port == _HTTPS else f"{wanted.host}:{wanted.port}"
        try:
            grant = Grant(("net::post",), hosts=(self.host.lower(),))
        except InvalidRuleError as error:
            raise UserError(f"the webhook's host {self.host} cannot be named: {error}") from None
        self._url, self._clock = url, clock
        self._http = Http(grant, max_bytes=_MAX_BYTES, timeout_ms=TIMEOUT_MS)
        self._unsent: deque[RolloutAlert] = deque()
        self._sender: asyncio.Task[None] | None = None

    def send(self, alert: RolloutAlert) -> None:
        """Have an alert sent, and return at once."""
        self._unsent.append(alert)
        if len(self._unsent) > MAX_UNSENT:
            _log.warning("webhook %s: an alert is dropped: %s", self.host, self._unsent[0].text)
            self._unsent.popleft()
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())

    async def aclose(self, *, waits: bool = True) -> None:
        """Wait until everything is sent or given up; without `waits` give it up at once."""
        if self._sender is None:
            return
        if waits:
            await asyncio.wait([self._sender], timeout=CLOSE_S)
        await cancel_all([self._sender])
        for alert in self._unsent:
            _log.warning("webhook %s: not told any more: %s", self.host, alert.text)
        self._unsent.clear()

    async def _send_all(self) -> None:
        while self._unsent:
            failure = await self._deliver(self._unsent[0])
            alert = self._unsent.popleft()
            if failure:
                _log.warning("webhook %s: %s; not told: %s", self.host, failure, alert.text)

    async def _deliver(self, alert: RolloutAlert) -> str:
        """Send one alert; return why it could not be."""
        failure, body = "", to_json(alert)
        for failures in range(TRIES):
            if failures:
                pause_ms = _BACKOFF.delay_ms(failures - 1, random.random())  # noqa: S311
                await self._clock.wait_until(self._clock.now() + pause_ms)
            try:
                answer = await self._http.fetch(
                    "POST", self._url, headers={"Content-Type": "application/json"}, body=body
                )
            except CapabilityDenied as error:
                return f"it may not be reached: {self._without_path(error)}"
            except (VegaError, OSError) as error:
                failure = self._without_path(error)
                continue
            if 200 <= answer.status < 300:
                return ""
            failure = f"it answered with status {answer.status}"
            if answer.status < 500 and answer.status not in _AGAIN:
                break
        return failure

    def _without_path(self, error: Exception) -> str:
        """Return what an error says, with the host for the URL."""
        text = str(error)
        for spelled in (self._url, self._url[:_SHOWN], urlsplit(self._url).path.rstrip("/")):
            text = text.replace(spelled, self.host) if spelled else text
        return text


# Metrics, by the names that monitoring of nodes uses: `sir_…` in Prometheus' spelling.

_SOURCE = "rollouts"
_BOUNDS_MS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1_000.0, 10_000.0, 60_000.0)
"""A node takes microseconds, and an agent minutes."""
_MOST_SERIES = 50
"""Of errors and of input classes: both may be what users make them."""


class RolloutMetrics:
    """Counts of all rollouts of one runtime."""

    def __init__(self) -> None:
        self._durations: dict[tuple[str, str], Histogram] = {}
        self._errors: Counter[tuple[str, str, str]] = Counter()
        self._watched: dict[str, RolloutEvidence] = {}

    @classmethod
    def of(cls, runtime: Runtime) -> "RolloutMetrics":
        """Return those of a runtime, which serves them with its own from now on."""
        return cls.among(runtime.activity.metric_sources)

    @classmethod
    def among(cls, sources: dict[str, Any]) -> "RolloutMetrics":
        """Return those among the sources of the metrics of a runtime."""
        found = sources.get(_SOURCE)
        if not isinstance(found, RolloutMetrics):
            found = sources[_SOURCE] = cls()
        return found

    def watch(self, evidence: RolloutEvidence) -> None:
        """Serve the confidence and the share of traffic of a rollout."""
        if evidence.key in self._watched or len(self._watched) < _MOST_SERIES:
            self._watched[evidence.key] = evidence

    def forget(self, evidence: RolloutEvidence) -> None:
        """Serve them no more: the rollout is closed here, and may move elsewhere."""
        if self._watched.get(evidence.key) is evidence:
            del self._watched[evidence.key]

    async def counted(self, node: str, path: str, run: Awaitable[T]) -> T:
        """Count one run of a path when it ends, how long it took, and its failure."""
        began = time.monotonic()
        try:
            return await run
        except Exception as error:
            self.count_error(node, path, type(error).__name__)
            raise
        finally:
            self.count(node, path, (time.monotonic() - began) * 1000)

    def count(self, node: str, path: str, ms: float) -> None:
        """Count one run that took so long."""
        key = (node, path)
        if key not in self._durations and len(self._durations) >= _MOST_SERIES:
            key = ("other", "other")
        self._durations.setdefault(key, Histogram(_BOUNDS_MS)).add(ms)

    def count_error(self, node: str, path: str, error: str) -> None:
        """Count that a run failed, by the name of the error."""
        known = (node, path, error) in self._errors or len(self._errors) < _MOST_SERIES
        self._errors[node, path, error if known else "other"] += 1

    def __call__(self) -> Iterator[Metric]:
        """Yield all that is known now."""
        yield Metric(
            "sir_executions_total",
            "counter",
            "Runs of the two paths of rollouts, in the shadow too.",
            [
                ("", {"node": node, "path": path}, sum(took.counts))
                for (node, path), took in self._durations.items()
            ],
        )
        yield Metric(
            "sir_execution_duration_ms",
            "histogram",
            "Milliseconds that runs of nodes and of the paths of rollouts took, in the shadow too.",
            [
                sample
                for (node, path), took in self._durations.items()
                for sample in took.samples({"node": node, "path": path}, in_ms=True)
            ],
        )
        yield Metric(
            "sir_executions_errors_total",
            "counter",
            "Runs of a path that failed, by the name of the error.",
            [
                ("", {"node": node, "path": path, "error": error}, count)
                for (node, path, error), count in self._errors.items()
            ],
        )
        states = [one.machine for one in self._watched.values()]
        yield Metric(
            "sir_divergences",
            "gauge",
            "Comparisons in production that differed, in all processes that share the evidence.",
            [("", _labels(one), one.evidence.production.failures) for one in states],
        )
        shown = [(one, one.evidence.shown(one.rule.alpha)) for one in states]
        yield Metric(
            "sir_confidence",
            "gauge",
            "Agreement in production is above this, at all looks together; none below 1,000 runs.",
            [("", _labels(one), known.lower) for one, known in shown if known is not None],
        )
        yield Metric(
            "sir_traffic_split",
            "gauge",
            "The share of calls that a path answers.",
            [sample for one in states for sample in _split(one)],
        )


def _labels(machine: Rollout) -> dict[str, str]:
    return {"node": machine.name, "input_class": machine.evidence.input_class}


def _split(machine: Rollout) -> Iterator[MetricSample]:
    share = STAGES[machine.stage].candidate_share
    yield "", {**_labels(machine), "path": "reference"}, round(1.0 - share, 6)
    yield "", {**_labels(machine), "path": "candidate"}, share


class CountedPath:
    """A path whose runs are counted."""

    def __init__(self, inner: ExecutionPath, node: str, role: str, metrics: RolloutMetrics) -> None:
        self.version, self.tool_names = inner.version, inner.tool_names
        self._inner, self._node, self._role, self._metrics = inner, node, role, metrics
        self.first_call, self.bound = inner.first_call, inner.bound

    async def perform(self, inputs: CallInputs, log: ToolLog) -> PathAnswer:
        """Answer as the path does."""
        run = self._inner.perform(inputs, log)
        return await self._metrics.counted(self._node, self._role, run)

    async def shadow(self, inputs: CallInputs, performed: Sequence[PerformedCall]) -> PathAnswer:
        """Answer as the path does in the shadow."""
        run = self._inner.shadow(inputs, performed)
        return await self._metrics.counted(self._node, self._role, run)
