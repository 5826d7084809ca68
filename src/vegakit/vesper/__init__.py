"""Rollouts: change the model, the prompt or the code with evidence; and nodes, small functions
under a contract with two independent paths (host).

`rollout(…)` runs what is trusted and what shall replace it, compares them as you say, and moves
traffic by `vegakit.contracts`; the evidence is kept in the store of the runtime. `load_node(…)`
reads a node, which `PythonPath` and `DirectPath` run; `NodeHost` runs one with effects.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.contracts import (
        PersonAction as PersonAction,
        RolloutMode as RolloutMode,
        RolloutRule as RolloutRule,
        StageChange as StageChange,
    )
    from vegakit.vesper.comparisons import (
        Comparison as Comparison,
        by_field as by_field,
        close as close,
        exact as exact,
        ignored as ignored,
        judge as judge,
        same_set as same_set,
    )
    from vegakit.vesper.evidence import RolloutRecord as RolloutRecord
    from vegakit.vesper.monitoring import (
        RolloutAlert as RolloutAlert,
        Webhook as Webhook,
        detection_text as detection_text,
        percent as percent,
        stage_name as stage_name,
    )
    from vegakit.vesper.node_files import (
        NodeFile as NodeFile,
        find_nodes as find_nodes,
        load_node as load_node,
        parse_node as parse_node,
    )
    from vegakit.vesper.node_host import (
        NodeHost as NodeHost,
        ask_with as ask_with,
        grant_of as grant_of,
        put_records as put_records,
        read_sensitively as read_sensitively,
        shown_clauses as shown_clauses,
        shown_outcome as shown_outcome,
        shown_records as shown_records,
    )
    from vegakit.vesper.node_paths import (
        DirectPath as DirectPath,
        Divergence as Divergence,
        NodePath as NodePath,
        NodeReport as NodeReport,
        PythonPath as PythonPath,
        compare_paths as compare_paths,
    )
    from vegakit.vesper.node_tables import node_schema as node_schema
    from vegakit.vesper.operations import (
        BoundPoint as BoundPoint,
        FoundRollout as FoundRollout,
        RolloutStatus as RolloutStatus,
        StoredRollouts as StoredRollouts,
        open_rollouts as open_rollouts,
        store_with_rollouts as store_with_rollouts,
    )
    from vegakit.vesper.quotes import (
        QuotedStage as QuotedStage,
        RolloutQuote as RolloutQuote,
        render_rollout_quote as render_rollout_quote,
    )
    from vegakit.vesper.rollouts import (
        CheckedInput as CheckedInput,
        RolledOut as RolledOut,
        rollout as rollout,
    )

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "vegakit.contracts": "PersonAction RolloutMode RolloutRule StageChange",
        "comparisons": "Comparison by_field close exact ignored judge same_set",
        "evidence": "RolloutRecord",
        "monitoring": "RolloutAlert Webhook detection_text percent stage_name",
        "node_files": "NodeFile find_nodes load_node parse_node",
        "node_host": (
            "NodeHost ask_with grant_of put_records read_sensitively shown_clauses shown_outcome "
            "shown_records"
        ),
        "node_paths": "DirectPath Divergence NodePath NodeReport PythonPath compare_paths",
        "node_tables": "node_schema",
        "operations": (
            "BoundPoint FoundRollout RolloutStatus StoredRollouts open_rollouts store_with_rollouts"
        ),
        "quotes": "QuotedStage RolloutQuote render_rollout_quote",
        "rollouts": "CheckedInput RolledOut rollout",
    },
)
