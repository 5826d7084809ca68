"""The campaign at the size of a commit: what leaves a runtime is what was done, and not what was
said."""

import sys
from pathlib import Path

import pytest
from campaigns.telemetry import RECEIVERS, telemetry_figures


@pytest.mark.parametrize("protocol", RECEIVERS)
def test_receivers_get_what_was_done(protocol: str) -> None:
    """Spans, metrics and log lines of a program, counted by receivers of OpenTelemetry's and
    Prometheus's own."""
    figures = telemetry_figures(Path(sys.executable).parent, 2, [protocol], whole=False)
    assert [figure for figure in figures if not figure.holds] == []
    assert len(figures) > 30
