"""What a provider says of its rate limits in the headers of every answer, failures too.

| what is left                           | until                              | which is           |
|----------------------------------------|------------------------------------|--------------------|
| anthropic-ratelimit-requests-remaining | anthropic-ratelimit-requests-reset | a time             |
| x-ratelimit-remaining-requests         | x-ratelimit-reset-requests         | `6m0s`, `20ms`     |

and the same of tokens. A time is held against the answer's own Date, so that a clock of ours that
is wrong does no harm. What cannot be read is as if it were not said.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from vegakit.policy import Remaining

__all__ = ["ServerLimits", "limits_in"]

_LONGEST_MS = 60_000
"""Providers tell when *all* of a limit is back. Some of it is back long before the end of a day: so
we ask again after a minute, and are told anew."""
_COUNT = re.compile(r"\d{1,15}", re.ASCII)
_DURATION = re.compile(
    r"(?:(?P<hours>\d{1,4})h)?(?:(?P<minutes>\d{1,6})m(?!s))?"
    r"(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)(?:s|$))?(?:(?P<milliseconds>\d{1,9}(?:\.\d{1,9})?)ms)?",
    re.ASCII,
)


class ServerLimits(NamedTuple):
    requests: Remaining | None
    tokens: Remaining | None


def limits_in(headers: Mapping[str, str]) -> ServerLimits | None:
    """Names of headers are in lower case."""
    for left, reset, read in _SPELLINGS:
        requests, tokens = (
            _remaining(
                headers.get(left.format(kind), ""),
                read(headers.get(reset.format(kind), ""), headers.get("date", "")),
            )
            for kind in ("requests", "tokens")
        )
        if requests or tokens:
            return ServerLimits(requests, tokens)
    return None


def _remaining(left: str, wait: timedelta | None) -> Remaining | None:
    if wait is None or not _COUNT.fullmatch(left):
        return None
    wait_ms = -(-wait // timedelta(milliseconds=1))
    return Remaining(int(left), min(max(0, wait_ms), _LONGEST_MS))


def _until(reset: str, date: str) -> timedelta | None:
    from email.utils import parsedate_to_datetime

    try:
        return datetime.fromisoformat(reset) - parsedate_to_datetime(date)
    except (ValueError, TypeError):
        return None


def _within(reset: str, _: str) -> timedelta | None:
    parts = _DURATION.fullmatch(reset)
    if parts is None or not reset:
        return None
    return timedelta(**{unit: float(number) for unit, number in parts.groupdict("0").items()})


_SPELLINGS: tuple[tuple[str, str, Callable[[str, str], timedelta | None]], ...] = (
    ("anthropic-ratelimit-{}-remaining", "anthropic-ratelimit-{}-reset", _until),
    ("x-ratelimit-remaining-{}", "x-ratelimit-reset-{}", _within),
)
