"""The kit that stands in for the world in tests of programs (kit, host).

Public: our own tests use it, and so do yours. It may import what it stands in for; of the package
only `vega test` and `vega demo crash` import it. Every pytest run loads it on the way to the
plugin, so names are loaded when they are first used.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.providers import (
        ScriptedCall as ScriptedCall,
        ScriptedModel as ScriptedModel,
        ScriptedReply as ScriptedReply,
    )
    from vegakit.testing.harness import FakeClock as FakeClock, Vega as Vega, tool as tool
    from vegakit.testing.host import HOST_CHECKS as HOST_CHECKS, HostCheck as HostCheck
    from vegakit.testing.journal import (
        JOURNAL_CHECKS as JOURNAL_CHECKS,
        JournalCheck as JournalCheck,
    )
    from vegakit.testing.ledger import (
        LEDGER_CHECKS as LEDGER_CHECKS,
        LedgerCheck as LedgerCheck,
        settle_ended as settle_ended,
    )
    from vegakit.testing.programs import (
        ProgramTestResult as ProgramTestResult,
        find_tests as find_tests,
        run_test as run_test,
    )
    from vegakit.testing.provider import (
        Provider as Provider,
        ProviderReply as ProviderReply,
        ProviderRequest as ProviderRequest,
    )
    from vegakit.testing.store import (
        MEMORY_CHECKS as MEMORY_CHECKS,
        STORE_CHECKS as STORE_CHECKS,
        MemoryCheck as MemoryCheck,
        StoreCheck as StoreCheck,
    )

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "vegakit.providers": "ScriptedCall ScriptedModel ScriptedReply",
        "harness": "FakeClock Vega tool",
        "host": "HOST_CHECKS HostCheck",
        "journal": "JOURNAL_CHECKS JournalCheck",
        "ledger": "LEDGER_CHECKS LedgerCheck settle_ended",
        "provider": "Provider ProviderReply ProviderRequest",
        "programs": "ProgramTestResult find_tests run_test",
        "store": "MEMORY_CHECKS MemoryCheck STORE_CHECKS StoreCheck",
    },
)
