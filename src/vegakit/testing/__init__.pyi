from vegakit.providers import (
    ScriptedCall as ScriptedCall,
    ScriptedModel as ScriptedModel,
    ScriptedReply as ScriptedReply,
)
from vegakit.testing.harness import (
    FakeClock as FakeClock,
    Vega as Vega,
    VirtualClock as VirtualClock,
    VirtualLoop as VirtualLoop,
    run_virtual as run_virtual,
    tool as tool,
)
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
    Api as Api,
    Break as Break,
    DropConnection as DropConnection,
    Failure as Failure,
    Hang as Hang,
    Provider as Provider,
    ProviderAnswer as ProviderAnswer,
    ProviderReply as ProviderReply,
    ProviderRequest as ProviderRequest,
    ProviderToolCall as ProviderToolCall,
    RequestStatus as RequestStatus,
    Script as Script,
)
