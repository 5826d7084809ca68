"""Looking into a runtime from another process of the same user, over a Unix socket.

vega ps, top, tree, kill, logs ──▶ Remote ── one line of JSON ──▶ ViewServer ──▶ Runtime
                                          ◀── lines of JSON ────
"""

from vegakit.runtime.viewing.protocol import Killed, RuntimeView
from vegakit.runtime.viewing.remote import BlockingRemote, Remote, connect
from vegakit.runtime.viewing.server import ViewServer, view_from_settings

__all__ = [
    "BlockingRemote",
    "Killed",
    "Remote",
    "RuntimeView",
    "ViewServer",
    "connect",
    "view_from_settings",
]
