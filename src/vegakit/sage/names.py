"""Name what others call by other names: stable names of a coding agent's SDK onto the types of the
runtime, which they are and not copies of. A file of its own, as type checkers take only `X as X` of
a lazy package for an export, and these are other names.

| name             | what it is here                                                             |
|------------------|-----------------------------------------------------------------------------|
| `AgentExecution` | an ask: awaited, or its events one by one; it keeps its budget and deadline |
| `AgentState`     | the phase of a turn: new, asking, calling, summarising, over                |
| `LLMClient`      | a model behind the gate: whatever answers a request, with its price         |
| `LLMProvider`    | what is particular to a provider: its wires, key and limits                 |
| `Config`         | settings, each with its source                                              |
"""

from vegakit.agent import TurnPhase as AgentState
from vegakit.config import Settings as Config
from vegakit.ports import Model as LLMClient
from vegakit.providers import ProviderRecord as LLMProvider
from vegakit.sdk import Ask as AgentExecution

__all__ = ["AgentExecution", "AgentState", "Config", "LLMClient", "LLMProvider"]
