"""A kernel by the installed wheel: from an empty folder to a process in its queue."""

import json
import signal
import urllib.request
from pathlib import Path

import pytest
from campaigns.contract.stage import PATIENCE_S, Stage, stage

pytestmark = pytest.mark.timeout(600)


def test_a_kernel_is_served_and_called(wheel: Path) -> None:
    """As the server itself says: the line that it names makes the token."""
    with stage(wheel, Stage) as here:
        server = here.start("vega", "serve", "--port", "0")
        assert server.stdout
        said: dict[str, str] = {}
        for line in server.stdout:
            name, _, told = line.strip().partition(" ")
            said[name] = told.strip()
            if name == "end":
                break
        url = said["✓"].split()[-1]
        made = here.run(*said["token"].split())
        assert made.code == 0, made
        request = urllib.request.Request(
            f"{url}/v1/submit",
            b'{"pid": "p1"}',
            {"Authorization": f"Bearer {made.out.strip()}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            assert json.load(response)["state"] == "ready"
        server.send_signal(signal.SIGTERM)
        assert here.end_of(server).code == 0
        assert (here.home / ".local/share/vega/kernel.db").is_file()
