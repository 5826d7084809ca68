"""What tests of programs need instead of the world (kit, host).

Public: our own tests use it, and so do yours. It may import what it stands in for; nothing of the
package imports it.
"""

from vegakit.testing.clock import FakeClock
from vegakit.testing.ledger import LEDGER_CHECKS, LedgerCheck
from vegakit.testing.script import ScriptedCall, ScriptedReply
from vegakit.testing.scripted import ScriptedModel
from vegakit.testing.store import STORE_CHECKS, StoreCheck

__all__ = [
    "LEDGER_CHECKS",
    "STORE_CHECKS",
    "FakeClock",
    "LedgerCheck",
    "ScriptedCall",
    "ScriptedModel",
    "ScriptedReply",
    "StoreCheck",
]
