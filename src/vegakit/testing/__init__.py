"""What tests of programs need instead of the world (kit, host).

Public: our own tests use it, and so do yours. It may import what it stands in for; of the package
only `vega test` imports it. Every pytest run loads it on the way to the plugin, so names are loaded
when they are first used.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.providers import ScriptedCall, ScriptedModel, ScriptedReply
    from vegakit.testing.harness import FakeClock, Vega, tool
    from vegakit.testing.host import HOST_CHECKS, HostCheck
    from vegakit.testing.journal import JOURNAL_CHECKS, JournalCheck
    from vegakit.testing.ledger import LEDGER_CHECKS, LedgerCheck, settle_ended
    from vegakit.testing.programs import ProgramTestResult, find_tests, run_test
    from vegakit.testing.store import MEMORY_CHECKS, STORE_CHECKS, MemoryCheck, StoreCheck


__all__ = [
    "HOST_CHECKS",
    "JOURNAL_CHECKS",
    "LEDGER_CHECKS",
    "MEMORY_CHECKS",
    "STORE_CHECKS",
    "FakeClock",
    "HostCheck",
    "JournalCheck",
    "LedgerCheck",
    "MemoryCheck",
    "ProgramTestResult",
    "ScriptedCall",
    "ScriptedModel",
    "ScriptedReply",
    "StoreCheck",
    "Vega",
    "find_tests",
    "run_test",
    "settle_ended",
    "tool",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "vegakit.providers": ("ScriptedCall", "ScriptedModel", "ScriptedReply"),
        "harness": (
            "FakeClock",
            "Vega",
            "tool",
        ),
        "host": (
            "HOST_CHECKS",
            "HostCheck",
        ),
        "journal": (
            "JOURNAL_CHECKS",
            "JournalCheck",
        ),
        "ledger": (
            "LEDGER_CHECKS",
            "LedgerCheck",
            "settle_ended",
        ),
        "programs": (
            "ProgramTestResult",
            "find_tests",
            "run_test",
        ),
        "store": (
            "MEMORY_CHECKS",
            "MemoryCheck",
            "STORE_CHECKS",
            "StoreCheck",
        ),
    },
)
