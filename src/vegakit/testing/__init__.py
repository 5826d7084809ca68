"""What tests of programs need instead of the world (kit, host).

Public: our own tests use it, and so do yours. It may import what it stands in for; of the package
only `vega test` imports it. Every pytest run loads it on the way to the plugin, so names are loaded
when they are first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.models import ScriptedCall, ScriptedModel, ScriptedReply
    from vegakit.testing.clock import FakeClock
    from vegakit.testing.host import HOST_CHECKS, HostCheck
    from vegakit.testing.journal import JOURNAL_CHECKS, JournalCheck
    from vegakit.testing.ledger import LEDGER_CHECKS, LedgerCheck, settle_ended
    from vegakit.testing.memory import MEMORY_CHECKS, MemoryCheck
    from vegakit.testing.programs import Ran, run_test, tests_below
    from vegakit.testing.store import STORE_CHECKS, StoreCheck
    from vegakit.testing.vega import Vega, tool

_HOME_OF = {
    "HOST_CHECKS": "testing.host",
    "JOURNAL_CHECKS": "testing.journal",
    "LEDGER_CHECKS": "testing.ledger",
    "MEMORY_CHECKS": "testing.memory",
    "STORE_CHECKS": "testing.store",
    "FakeClock": "testing.clock",
    "HostCheck": "testing.host",
    "JournalCheck": "testing.journal",
    "LedgerCheck": "testing.ledger",
    "settle_ended": "testing.ledger",
    "MemoryCheck": "testing.memory",
    "Ran": "testing.programs",
    "ScriptedCall": "models",
    "ScriptedModel": "models",
    "ScriptedReply": "models",
    "StoreCheck": "testing.store",
    "Vega": "testing.vega",
    "run_test": "testing.programs",
    "tests_below": "testing.programs",
    "tool": "testing.vega",
}

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
    "Ran",
    "ScriptedCall",
    "ScriptedModel",
    "ScriptedReply",
    "StoreCheck",
    "Vega",
    "run_test",
    "settle_ended",
    "tests_below",
    "tool",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"vegakit.testing has no {name!r}; it has {', '.join(__all__)}")
    value = getattr(__import__(f"vegakit.{_HOME_OF[name]}", fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
