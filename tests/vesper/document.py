"""Everything that is asked of verified nodes and of their replacement, and ours for it.

A row is `what : ours @ test`. Ours is a name below `vegakit`, or a word and what it says of the
thing: `key`, `type`, `expression`, `operation`, `mode`, `capability`, `metric`, `span`, `node` (a
command of `vega node`), `page`, `just`. The test is `path::function` below `tests`. A row of which
ours is another thing reads `what : different, because …`. A line that begins with blanks goes on
with the one before. Rows of a part are counted, so that one which is lost is missed.
"""

from tests.asked import Part

__all__ = ["PARTS"]

PARTS = (
    Part(
        "Components",
        21,
        """
Command line : node check @ cli/test_node_samples.py::test_every_command_runs_on_a_sample
Editor support : vesper.node_schema @ vesper/test_nodes.py::test_the_schema_is_published
Web dashboard : different, because the figures are metrics that a dashboard of yours reads;
  queries are in docs/how-to/roll-out-a-node.md
Parser : vesper.parse_node @ vesper/test_nodes.py::test_a_mistake_in_a_file_is_told_with_its_line
Validator : contracts.check_expression
  @ contracts/test_expressions.py::test_a_mistake_is_told_with_its_column_and_a_fix
Code generator : contracts.python_source
  @ vesper/test_nodes.py::test_generated_python_is_a_module_of_its_own
Optimiser of semantic transformations : contracts.optimised
  @ contracts/test_node_optimiser.py::test_a_rule_changes_no_outcome
Versions of nodes : vesper.NodeRepository
  @ vesper/test_node_repository.py::test_a_name_is_the_newest_version
Dependency resolution : node deps @ vesper/test_node_repository.py::test_a_circle_and_a_gap_are_told
Capability registry : node who-needs
  @ vesper/test_node_repository.py::test_who_needs_a_capability_or_a_node
Python runtime, the reference : vesper.PythonPath
  @ vesper/test_nodes.py::test_a_node_runs_the_same_on_both_paths
Direct runtime that interprets : vesper.DirectPath
  @ vesper/test_nodes.py::test_both_paths_of_a_sample_agree
Direct runtime that compiles : vesper.NativePath
  @ vesper/test_node_native.py::test_three_paths_of_a_sample_agree
numpy, pandas in the standard library : different, because nodes are business rules over bounded
  values; arrays of numbers would be another backend
BLAS, CUDA : different, because no operation of a node is over matrices
Differential testing : vesper.compare_paths
  @ vesper/test_nodes.py::test_a_planted_bug_is_found_and_shrunk
Metrics collection : vesper.monitoring
  @ vesper/test_monitoring.py::test_rollouts_are_counted_with_the_metrics_of_their_runtime
Confidence calculation : contracts.confidence
  @ contracts/test_confidence.py::test_the_bound_is_where_the_integral_says
Traffic routing decisions : contracts.rollout
  @ contracts/test_rollout.py::test_a_clean_candidate_climbs_every_stage
Proof of correctness : vesper.prove_node
  @ vesper/test_node_proofs.py::test_a_sample_is_proved_and_survives_random_inputs
A second name of the command : __main__.vesper
  @ cli/test_node_repository.py::test_vesper_is_another_name
""",
    ),
    Part(
        "Principles",
        5,
        """
Intent first : key intent
  @ vesper/test_node_rollouts.py::test_an_agent_is_told_the_rules_of_its_node
Contract driven : contracts.judge @ vesper/test_nodes.py::test_a_broken_postcondition_is_no_answer
Capability based : vesper.grant_of
  @ vesper/test_node_effects.py::test_a_capability_that_is_not_granted_is_refused_before_the_run
Composable : operation call
  @ vesper/test_node_effects.py::test_a_node_calls_another_within_its_transaction
Verifiable : node prove @ vesper/test_node_proofs.py::test_the_command_says_what_holds
""",
    ),
    Part(
        "Keys",
        35,
        """
node_id : key node_id @ vesper/test_node_repository.py::test_an_id_has_a_version
type : key type @ vesper/test_node_tools.py::test_a_call_is_a_span_and_is_counted
intent : key intent @ vesper/test_node_tools.py::test_a_call_is_a_span_and_is_counted
metadata.author : key metadata.author @ vesper/test_nodes.py::test_the_schema_is_published
metadata.created : key metadata.created @ vesper/test_nodes.py::test_the_schema_is_published
metadata.dependencies : key metadata.dependencies
  @ vesper/test_node_repository.py::test_dependencies_come_before_who_needs_them
metadata.tags : key metadata.tags @ vesper/test_nodes.py::test_the_schema_is_published
types.NAME.fields : key types.*.fields
  @ contracts/test_node_types.py::test_a_wrong_value_is_refused_with_its_path
types.NAME.constraints : key types.*.constraints
  @ vesper/test_document.py::test_a_record_keeps_its_constraints
inputs.NAME.type : key inputs.*.type
  @ vesper/test_nodes.py::test_an_input_that_does_not_fit_is_refused
inputs.NAME.constraints : key inputs.*.constraints
  @ vesper/test_nodes.py::test_a_node_runs_the_same_on_both_paths
inputs.NAME.required : key inputs.*.required
  @ vesper/test_nodes.py::test_a_mistake_in_a_file_is_told_with_its_line
inputs.NAME.default : key inputs.*.default
  @ vesper/test_document.py::test_an_input_with_a_default_may_be_left_out
outputs.success : key outputs.success
  @ vesper/test_nodes.py::test_a_node_runs_the_same_on_both_paths
outputs.error.error_code : key outputs.error.error_code
  @ vesper/test_nodes.py::test_a_trap_is_named_with_its_step_or_is_the_declared_error
outputs.error.message : key outputs.error.message
  @ cli/test_node.py::test_a_run_without_outputs_says_why
contracts.preconditions : key contracts.preconditions
  @ vesper/test_nodes.py::test_a_node_runs_the_same_on_both_paths
contracts.postconditions : key contracts.postconditions
  @ vesper/test_nodes.py::test_a_broken_postcondition_is_no_answer
contracts.invariants : key contracts.invariants
  @ vesper/test_node_state.py::test_a_broken_invariant_undoes_the_run
flow.step : key flow.step @ vesper/test_nodes.py::test_a_mistake_in_a_file_is_told_with_its_line
flow.operation : key flow.operation
  @ vesper/test_nodes.py::test_a_mistake_in_a_file_is_told_with_its_line
flow.parameters : key flow.parameters
  @ vesper/test_nodes.py::test_a_mistake_in_a_file_is_told_with_its_line
flow.guards : key flow.guards @ vesper/test_nodes.py::test_a_node_runs_the_same_on_both_paths
flow.error_handling : key flow.error_handling
  @ vesper/test_nodes.py::test_a_trap_is_named_with_its_step_or_is_the_declared_error
performance.expected_latency_ms : different, because it is kept and listed and ends nothing: alert
  on `sir_execution_duration_ms`
performance.memory_limit_mb : different, because values and operations of a node are bounded
  before it runs, and it runs in the process of its caller: it is kept and ends nothing
performance.timeout_seconds : key performance.timeout_seconds
  @ vesper/test_node_effects.py::test_a_timeout_ends_a_run_and_keeps_nothing
security.capabilities_required : key security.capabilities_required
  @ vesper/test_node_effects.py::test_a_mistake_is_told_before_anything_runs
security.denied_capabilities : key security.denied_capabilities
  @ vesper/test_node_effects.py::test_a_mistake_is_told_before_anything_runs
security.sensitive_data : key security.sensitive_data
  @ vesper/test_node_effects.py::test_what_is_made_of_something_sensitive_is_shown_nowhere
security.audit_level : key security.audit_level
  @ cli/test_node.py::test_a_file_keeps_state_and_the_audit_what_was_done
audit_level none : contracts.NodeRules @ vesper/test_document.py::test_the_audit_has_three_levels
audit_level basic : contracts.NodeRules @ vesper/test_document.py::test_the_audit_has_three_levels
audit_level detailed : contracts.NodeRules
  @ vesper/test_document.py::test_the_audit_has_three_levels
State that contracts speak of : key state.*.fields
  @ vesper/test_node_state.py::test_a_transfer_is_kept_once_for_its_key
""",
    ),
    Part(
        "Types",
        10,
        """
string : type string @ contracts/test_node_types.py::test_values_come_in_and_go_out
integer, signed 64-bit : type integer @ contracts/test_node_types.py::test_an_integer_has_one_type
decimal, of any precision : different, because 38 digits with up to 18 places are exact, and known
  to fit every path; more is refused where it is written
boolean : type boolean @ contracts/test_node_types.py::test_values_come_in_and_go_out
bytes : type bytes @ contracts/test_node_types.py::test_values_come_in_and_go_out
timestamp, ISO 8601 : type timestamp @ contracts/test_node_types.py::test_values_come_in_and_go_out
array<T> : type array<integer> @ contracts/test_node_types.py::test_a_type_is_shown_as_it_is_written
map<K,V> : type map<string, integer>
  @ contracts/test_node_types.py::test_a_type_is_shown_as_it_is_written
set<T> : type set<integer> @ contracts/test_node_types.py::test_a_type_is_shown_as_it_is_written
custom types : contracts.RecordType
  @ contracts/test_node_types.py::test_a_wrong_value_is_refused_with_its_path
""",
    ),
    Part(
        "Contract language",
        16,
        """
AND : expression a AND b @ contracts/test_expressions.py::test_an_expression_has_a_type_and_a_value
OR : expression a OR b @ contracts/test_expressions.py::test_an_expression_has_a_type_and_a_value
NOT : expression NOT a @ contracts/test_expressions.py::test_an_expression_has_a_type_and_a_value
== : expression a == b @ contracts/test_expressions.py::test_an_expression_has_a_type_and_a_value
!= : expression a != b @ contracts/test_expressions.py::test_an_expression_has_a_type_and_a_value
< : expression a < b @ contracts/test_expressions.py::test_an_expression_has_a_type_and_a_value
<= : expression a <= b @ contracts/test_expressions.py::test_an_expression_has_a_type_and_a_value
> : expression a > b @ contracts/test_expressions.py::test_an_expression_has_a_type_and_a_value
>= : expression a >= b @ contracts/test_expressions.py::test_an_expression_has_a_type_and_a_value
IN : expression status IN ['paid', 'payment_failed']
  @ contracts/test_expressions.py::test_an_expression_has_a_type_and_a_value
CONTAINS : expression tags CONTAINS 'new'
  @ contracts/test_expressions.py::test_an_expression_has_a_type_and_a_value
FORALL : expression FORALL x IN items: x > 0
  @ contracts/test_expressions.py::test_a_verdict_shows_the_first_item_that_breaks_it
EXISTS : expression EXISTS x IN items: x > 0
  @ contracts/test_expressions.py::test_an_expression_has_a_type_and_a_value
SUM : expression SUM(accounts.balance)
  @ contracts/test_expressions.py::test_an_expression_has_a_type_and_a_value
all(…) : expression all(user.balance >= 0)
  @ contracts/test_expressions.py::test_an_expression_has_a_type_and_a_value
old(e) : expression user.balance == old(user.balance) - amount
  @ contracts/test_expressions.py::test_old_names_are_variables_of_their_own
""",
    ),
    Part(
        "Modes and routing",
        15,
        """
python_only : mode python_only
  @ contracts/test_rollout.py::test_names_of_earlier_documents_are_taken
shadow_direct : mode shadow_direct
  @ contracts/test_rollout.py::test_names_of_earlier_documents_are_taken
canary_direct : mode canary_direct
  @ contracts/test_rollout.py::test_names_of_earlier_documents_are_taken
dual_verify : mode dual_verify
  @ contracts/test_rollout.py::test_dual_verification_waits_and_others_do_not
direct_only : mode direct_only
  @ contracts/test_rollout.py::test_the_sample_is_of_calls_and_not_of_inputs
A node under a mode : vesper.node_rollout
  @ vesper/test_node_rollouts.py::test_paths_that_agree_are_compared_and_stay
The shadow runs in the background : vesper.rollout
  @ vesper/test_rollouts.py::test_the_reference_answers_in_the_shadow
The shadow performs nothing : vesper.shadows
  @ vesper/test_rollout_shadow.py::test_a_shadow_does_nothing_in_any_way_to_reach_the_world
Canary by a hash of the inputs : contracts.rollout
  @ contracts/test_rollout.py::test_the_same_inputs_take_the_same_path
Canary of 1 %, then 5 % : contracts.rollout.STAGES
  @ contracts/test_rollout.py::test_the_share_of_answers_is_that_of_the_stage
Fall back on failure : vesper.rollout
  @ vesper/test_fallbacks.py::test_whatever_a_candidate_does_the_caller_is_answered
Divergences are recorded : vesper.KeptDifference
  @ vesper/test_monitoring.py::test_what_differed_is_kept_for_people
1 % of calls sampled at the end : contracts.rollout.STAGES
  @ contracts/test_rollout.py::test_the_sample_is_of_calls_and_not_of_inputs
Automatic rollback : contracts.rollout
  @ vesper/test_node_rollouts.py::test_a_breach_demotes_before_the_next_call
A person promotes and demotes : rollout promote
  @ vesper/test_node_rollouts.py::test_a_person_sees_and_moves_the_rollout_of_a_node
""",
    ),
    Part(
        "Verification",
        12,
        """
10,000 inputs by default : node test
  @ vesper/test_document.py::test_a_test_takes_ten_thousand_inputs
Divergence record : vesper.Divergence @ vesper/test_nodes.py::test_a_planted_bug_is_found_and_shrunk
First differing step : node debug
  @ cli/test_node_debug.py::test_paths_are_compared_to_the_first_step_that_differs
Wilson's lower bound : different, because it holds for one look only; it is shown beside a bound
  that holds however often one looks
Minimum sample : contracts.confidence.MIN_SAMPLE
  @ contracts/test_confidence.py::test_a_number_is_shown_after_a_thousand_runs
Below 0.95 stays in Python : contracts.rollout.STAGES
  @ contracts/test_rollout.py::test_a_clean_candidate_climbs_every_stage
0.95: canary : contracts.rollout.STAGES
  @ contracts/test_rollout.py::test_a_clean_candidate_climbs_every_stage
0.999: dual verify : contracts.rollout.STAGES
  @ contracts/test_rollout.py::test_a_clean_candidate_climbs_every_stage
0.9999: direct only : contracts.rollout.STAGES
  @ contracts/test_rollout.py::test_a_clean_candidate_climbs_every_stage
Generated inputs from types and constraints : vesper.node_inputs
  @ vesper/test_nodes.py::test_both_paths_of_a_sample_agree
Property-based tests : contracts.evaluation
  @ contracts/test_expressions.py::test_decimals_are_rounded_as_decimal_rounds
The same key twice is the same transaction : key idempotent.key
  @ vesper/test_node_state.py::test_a_transfer_is_kept_once_for_its_key
""",
    ),
    Part(
        "Deliverables",
        23,
        """
Specification 0.1 : page docs/reference/vesper-spec.md#conformance
  @ vesper/test_document.py::test_the_specification_names_every_key_word_and_operation
Python code generator : node compile @ cli/test_node.py::test_generated_python_runs_without_vega
vesper compile : node compile @ cli/test_node_samples.py::test_every_command_runs_on_a_sample
vesper run : node run @ cli/test_node.py::test_a_run_prints_outputs
Basic differential testing : node test
  @ cli/test_node_samples.py::test_every_command_runs_on_a_sample
Direct runtime core in Rust : different, because native code by LLVM gives the speed without a
  second language to build and to trust
Shadow mode : mode shadow @ vesper/test_rollouts.py::test_a_shadow_performs_nothing
10,000 executions a node : just nodes
  @ vesper/test_document.py::test_a_test_takes_ten_thousand_inputs
Differential testing dashboard : different, because `vega rollout status` draws the bound between
  the thresholds, and the metrics are there for a dashboard of yours
Canary routing 1 to 5 % : mode canary
  @ contracts/test_rollout.py::test_the_share_of_answers_is_that_of_the_stage
Error monitoring : metric sir_executions_errors_total
  @ vesper/test_node_tools.py::test_a_call_is_a_span_and_is_counted
Alerting : vesper.Webhook @ vesper/test_monitoring.py::test_a_webhook_is_told_of_every_decision
Alert rules : page docs/how-to/roll-out-a-node.md#alerts
  @ vesper/test_document.py::test_alerts_and_queries_name_metrics_that_there_are
Dashboard queries : page docs/how-to/roll-out-a-node.md#dashboard
  @ vesper/test_document.py::test_alerts_and_queries_name_metrics_that_there_are
Automatic rollback on failures : contracts.rollout
  @ contracts/test_rollout.py::test_the_first_difference_demotes
Performance benchmarking : just node-speed
  @ vesper/test_node_native.py::test_native_code_that_is_slower_is_dropped
Confidence-based routing : contracts.rollout
  @ contracts/test_rollout.py::test_evidence_promotes_by_one_and_demotes_to_the_shadow
20 sample nodes : vesper.find_nodes @ vesper/test_nodes.py::test_there_are_samples
JIT compilation of hot paths : vesper.HotPath
  @ vesper/test_node_native.py::test_a_node_that_is_hot_is_compiled_for_real
Migration playbook : page docs/how-to/roll-out-a-node.md#playbook
  @ docs/test_pages.py::test_every_page_can_be_found_from_the_readme
Python kept for edge cases : vesper.HotPath
  @ vesper/test_node_native.py::test_a_node_that_cannot_be_native_stays_on_python
Comprehensive monitoring : metric sir_traffic_split
  @ vesper/test_monitoring.py::test_rollouts_are_counted_with_the_metrics_of_their_runtime
Shares of production traffic (5, 50, 80 %) : different, because whose traffic moves, and how far,
  is decided by its owner; `RolloutRule(last=…)` sets the end
""",
    ),
    Part(
        "Runtimes",
        38,
        """
Function loader : vesper.PythonPath @ vesper/test_nodes.py::test_names_that_python_knows_are_names
Contract validator : contracts.judge
  @ contracts/test_expressions.py::test_a_verdict_names_the_clause_and_its_values
Exception handler : contracts.NodeOutcome
  @ vesper/test_nodes.py::test_a_trap_is_named_with_its_step_or_is_the_declared_error
map : operation map @ vesper/test_node_effects.py::test_the_tables_of_operations_are_whole
filter : operation filter @ vesper/test_node_effects.py::test_the_tables_of_operations_are_whole
reduce : operation reduce @ vesper/test_node_effects.py::test_the_tables_of_operations_are_whole
External integrations (Stripe, AWS) : operation http
  @ vesper/test_node_effects.py::test_http_reaches_the_declared_host_with_a_secret_that_is_never_shown
Validated data structures : contracts.read_value
  @ contracts/test_node_types.py::test_a_wrong_value_is_refused_with_its_path
Generated: type hints : contracts.python_source
  @ vesper/test_document.py::test_generated_python_has_all_its_parts
Generated: docstring with the intent : contracts.python_source
  @ vesper/test_document.py::test_generated_python_has_all_its_parts
Generated: precondition checks : contracts.python_source
  @ vesper/test_document.py::test_generated_python_has_all_its_parts
Generated: postcondition checks : contracts.python_source
  @ vesper/test_document.py::test_generated_python_has_all_its_parts
Generated: error handlers : contracts.python_source
  @ vesper/test_document.py::test_generated_python_has_all_its_parts
Header AUTO-GENERATED - DO NOT EDIT : contracts.python_source
  @ cli/test_node_samples.py::test_every_command_runs_on_a_sample
Loader of .vsp files : vesper.load_node
  @ vesper/test_nodes.py::test_a_mistake_in_a_file_is_told_with_its_line
Semantic executor : contracts.start_run
  @ vesper/test_node_effects.py::test_a_run_asks_for_one_thing_after_another
Operation dispatcher : contracts.EFFECTS
  @ vesper/test_node_effects.py::test_the_tables_of_operations_are_whole
Hot path detector : vesper.HotPath
  @ vesper/test_node_native.py::test_a_node_is_native_from_the_threshold_on
LLVM IR generator : contracts.llvm_source
  @ vesper/test_node_native.py::test_every_part_of_the_tree_is_emitted_or_refused
Native code generator : vesper.NativePath
  @ vesper/test_node_native.py::test_three_paths_of_an_operator_agree
Compiled code cache : vesper.HotPath
  @ vesper/test_node_native.py::test_a_node_that_is_hot_is_compiled_for_real
BLAS backend : different, because no operation of a node is over matrices
CUDA backend : different, because no operation of a node is over matrices
libpq (Postgres) : store.open_records @ vesper/test_node_state.py::test_transfers_survive_kills
Redis client : different, because records are in SQL, where a run is one transaction
HTTP client : operation http
  @ vesper/test_node_effects.py::test_an_answer_that_does_not_fit_is_the_declared_error
Arena allocator : different, because CPython owns the memory of values, and native code allocates
  none
Reference counting : different, because CPython counts references
Capability tracking : contracts.capabilities_of
  @ vesper/test_node_effects.py::test_a_mistake_is_told_before_anything_runs
Cold path: interpreted and profiled : vesper.HotPath
  @ vesper/test_node_native.py::test_a_node_is_native_from_the_threshold_on
Warm path: compiled after 100 calls : different, because compiling was measured to pay after
  thousands of calls; `NATIVE_AFTER` is the setting
Hot path: regression monitor : vesper.HotPath
  @ vesper/test_node_native.py::test_native_code_that_is_slower_is_dropped
Threshold of compilation : vesper.NATIVE_AFTER
  @ vesper/test_node_native.py::test_a_node_is_native_from_the_threshold_on
L1: compiled code in memory : vesper.HotPath
  @ vesper/test_node_native.py::test_a_node_that_is_hot_is_compiled_for_real
L2: parsed nodes in memory : vesper.NodeRepository
  @ vesper/test_node_repository.py::test_many_ways_to_one_node_are_not_walked_one_by_one
L3: results of idempotent nodes : vesper.ResultCache
  @ vesper/test_node_tools.py::test_results_are_kept_by_what_was_read
L3 in Redis : different, because a node without effects is computed again sooner than Redis
  answers; results of nodes with effects are rows beside their records
Cached results end with a change : vesper.node_digest
  @ vesper/test_node_tools.py::test_a_changed_dependency_finds_nothing_of_what_was_kept
""",  # noqa: E501  (names of tests are not broken)
    ),
    Part(
        "Debugger",
        11,
        """
debug --comparative : node debug @ cli/test_node_debug.py::test_what_differs_is_shown_side_by_side
step : vesper.NodeDebugger
  @ cli/test_node_debug.py::test_a_script_steps_goes_back_and_changes_values
continue : vesper.NodeDebugger @ cli/test_node_debug.py::test_it_stops_where_it_was_told
Break on contract_violation : vesper.parse_breakpoint
  @ cli/test_node_debug.py::test_it_stops_where_it_was_told
Break on state_transition : vesper.parse_breakpoint
  @ cli/test_node_debug.py::test_it_stops_before_a_state_changes
Break on an input : vesper.parse_breakpoint
  @ cli/test_node_debug.py::test_it_stops_where_it_was_told
Break on divergence : vesper.parse_breakpoint
  @ cli/test_node_debug.py::test_paths_are_compared_to_the_first_step_that_differs
--break-on : different, because the option is `--break`, as debuggers name it
replay a trace : node replay @ cli/test_node_debug.py::test_a_replay_is_the_run_again
modify a step, and go on from there : vesper.replayed
  @ cli/test_node_debug.py::test_a_changed_value_is_followed_without_performing_anything
Apply fix? [y/N] : vesper.write_version @ cli/test_node_debug.py::test_a_person_is_asked
""",
    ),
    Part(
        "Security",
        15,
        """
database.write.TABLE : capability database.write.transactions
  @ vesper/test_node_state.py::test_a_transfer_is_kept_once_for_its_key
network.http_client.HOST : capability network.http_client.stripe.com
  @ vesper/test_node_effects.py::test_http_reaches_the_declared_host_with_a_secret_that_is_never_shown
secrets.read.NAME : capability secrets.read.stripe_api_key
  @ vesper/test_node_effects.py::test_http_reaches_the_declared_host_with_a_secret_that_is_never_shown
filesystem.write : capability filesystem.write
  @ vesper/test_node_effects.py::test_a_mistake_is_told_before_anything_runs
network.http_server : capability network.http_server
  @ vesper/test_document.py::test_a_capability_that_nothing_uses_is_only_denied
exec.shell_command : capability exec.shell_command
  @ vesper/test_document.py::test_a_capability_that_nothing_uses_is_only_denied
A missing capability is refused before the run : vesper.NodeHost
  @ vesper/test_node_effects.py::test_a_capability_that_is_not_granted_is_refused_before_the_run
Sandbox : different, because nothing in a node can run code: what it asks of the world passes the
  gate, one thing at a time
Audit: timestamp : ports.AuditEntry.at_ms
  @ cli/test_node.py::test_a_file_keeps_state_and_the_audit_what_was_done
Audit: node_id with its version : ports.AuditEntry.actor
  @ cli/test_node.py::test_a_file_keeps_state_and_the_audit_what_was_done
Audit: user_id : ports.AuditEntry.user
  @ cli/test_node.py::test_a_file_keeps_state_and_the_audit_what_was_done
Audit: action : ports.AuditEntry.action
  @ cli/test_node.py::test_a_file_keeps_state_and_the_audit_what_was_done
Audit: inputs : ports.AuditEntry.inputs
  @ cli/test_node.py::test_a_file_keeps_state_and_the_audit_what_was_done
Audit: result : ports.AuditEntry.result
  @ cli/test_node.py::test_a_file_keeps_state_and_the_audit_what_was_done
Audit: transaction_id : ports.AuditEntry.trace_id
  @ cli/test_node.py::test_a_file_keeps_state_and_the_audit_what_was_done
""",  # noqa: E501  (names of tests are not broken)
    ),
    Part(
        "Observability",
        14,
        """
sir.executions.total : metric sir_executions_total
  @ vesper/test_node_tools.py::test_a_call_is_a_span_and_is_counted
sir.execution.duration_ms : metric sir_execution_duration_ms
  @ vesper/test_monitoring.py::test_how_long_paths_take_is_served_by_path
sir.executions.errors : metric sir_executions_errors_total
  @ vesper/test_node_tools.py::test_a_call_is_a_span_and_is_counted
sir.divergences : metric sir_divergences
  @ vesper/test_monitoring.py::test_rollouts_are_counted_with_the_metrics_of_their_runtime
sir.confidence : metric sir_confidence
  @ vesper/test_monitoring.py::test_rollouts_are_counted_with_the_metrics_of_their_runtime
sir.traffic_split : metric sir_traffic_split
  @ vesper/test_monitoring.py::test_rollouts_are_counted_with_the_metrics_of_their_runtime
Span sir.execute : span sir.execute
  @ vesper/test_node_tools.py::test_a_call_is_a_span_and_is_counted
sir.node_id : span sir.node_id @ vesper/test_node_tools.py::test_a_call_is_a_span_and_is_counted
sir.node_type : span sir.node_type @ vesper/test_node_tools.py::test_a_call_is_a_span_and_is_counted
sir.intent : span sir.intent @ vesper/test_node_tools.py::test_a_call_is_a_span_and_is_counted
sir.execution_path : span sir.execution_path
  @ vesper/test_node_tools.py::test_a_call_is_a_span_and_is_counted
sir.duration_ms : span sir.duration_ms
  @ vesper/test_node_tools.py::test_a_call_is_a_span_and_is_counted
sir.divergence : span sir.divergence
  @ vesper/test_node_rollouts.py::test_an_agent_that_is_wrong_is_demoted_by_its_first_answer
divergence_detected : span divergence_detected
  @ vesper/test_node_rollouts.py::test_an_agent_that_is_wrong_is_demoted_by_its_first_answer
""",
    ),
    Part(
        "Open questions",
        5,
        """
When is a node compiled? : page docs/reference/vesper-spec.md#when-is-a-node-compiled
  @ vesper/test_node_native.py::test_a_node_is_native_from_the_threshold_on
How are caches invalidated? : page docs/reference/vesper-spec.md#what-ends-a-cached-result
  @ vesper/test_node_tools.py::test_a_changed_node_finds_nothing_of_what_was_kept
How do nodes run on several machines? : page docs/reference/vesper-spec.md#where-do-nodes-run
  @ vesper/test_node_state.py::test_transfers_survive_kills
What do candidates of models cost? : page
  docs/reference/vesper-spec.md#what-does-a-candidate-of-a-model-cost
  @ vesper/test_quotes.py::test_a_quote_is_what_calls_add_up_to
Which path is right when both fail? : page docs/reference/vesper-spec.md#who-is-right-when-both-fail
  @ vesper/test_node_rollouts.py::test_where_both_break_it_the_candidate_is_demoted_and_the_caller_told
""",  # noqa: E501  (names of tests are not broken)
    ),
)
