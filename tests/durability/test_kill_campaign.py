"""Sixty kills of generated programs, as processes of the vega command, judged from outside."""

import asyncio
import sys

import pytest
from benchmarks.figures import show
from campaigns.kill_campaign.__main__ import Options, campaign
from campaigns.kill_campaign.player import Ways

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform == "win32", reason="forks its commands"),
]
KILLS, COLD = 60, 3
MOST = 60


def test_killed_programs_go_on_and_buy_nothing_twice() -> None:
    """Some of them by the installed command, which is loaded anew for each life."""
    report = asyncio.run(campaign(Options(KILLS, cold=COLD)))
    print(show(report.figures))
    assert report.kills >= KILLS
    assert report.holds, show(report.figures)


@pytest.mark.parametrize(
    ("faults", "seed", "kinds"),
    [
        ("no spool,slow store", 12, {"bought again"}),
        ("place alone", 17, {"changed", "differs", "stuck", "recorded twice"}),
    ],
)
def test_what_the_promises_stand_on_is_missed(faults: str, seed: int, kinds: set[str]) -> None:
    """Without it the campaign fails, and says why."""
    ways = Ways(faults=faults)
    options = Options(MOST, seed, ways=ways, at_once=4, until_fault=True)
    report = asyncio.run(campaign(options))
    assert not report.holds
    assert {kind for kind in kinds if report.count(kind)}, show(report.figures)
