"""Everything that a coding agent of this kind is said to have, and ours for it.

A row is `what : ours @ test`. Ours is a name below `vegakit`, a command (`vega code`) or a recipe
(`just shape`); the test is `path::function` below `tests`. A row of which ours is another thing
reads `what : different, because …`, one whose part is not there yet `what : later, with …`. A line
that begins with blanks goes on with the one before. Rows of a part are counted: the number stands
in the heading, so that a row which is lost is missed.
"""

from tests.asked import Part

__all__ = ["LATER", "PARTS"]


LATER = {"the screen", "the web door"}
"""Parts that rows may wait for."""

_ANSWERS = "models/test_answers.py"
_CELLS = {
    "chat": f"{_ANSWERS}::test_a_plain_answer_is_one_request",
    "stream": f"{_ANSWERS}::test_a_stream_comes_in_pieces",
    "tools": f"{_ANSWERS}::test_tool_results_go_back_under_their_ids",
    "vision": f"{_ANSWERS}::test_images_reach_the_wire",
}
"""Each of these tests asks every provider over a socket."""
_PROVIDERS = {
    "Anthropic": "anthropic",
    "OpenAI": "openai",
    "Google Vertex": "vertex",
    "Azure OpenAI": "azure",
    "AWS Bedrock": "bedrock",
    "Ollama": "ollama",
}
_MATRIX = "\n".join(
    f"{provider}: {cell} : providers.known.{module} @ {test}"
    for provider, module in _PROVIDERS.items()
    for cell, test in _CELLS.items()
)

PARTS = (
    Part(
        "Metrics",
        6,
        """
First token after less than 200 ms : sage.SageText
  @ sage/test_claims.py::test_text_is_told_while_the_provider_still_speaks
At least 8 tools at once : sage.SageAgent @ sage/test_claims.py::test_eight_tools_run_at_once
Less than 500 MB per session : vega code @ sage/test_claims.py::test_a_session_needs_little_memory
All major APIs : providers.known_providers @ models/test_providers.py::test_every_file_is_a_provider
Streams of all providers : wires @ models/test_answers.py::test_a_stream_comes_in_pieces
Tests cover more than 80 % : just test
  @ sage/test_document.py::test_coverage_is_held_above_80_percent
""",
    ),
    Part("Providers", 24, _MATRIX),
    Part(
        "Public names",
        12,
        """
Agent : sage.Agent @ sage/test_sessions.py::test_the_names_of_the_sdk_are_those_of_the_runtime
AgentExecution : sage.AgentExecution
  @ sage/test_sessions.py::test_the_names_of_the_sdk_are_those_of_the_runtime
AgentState : sage.AgentState
  @ sage/test_sessions.py::test_the_names_of_the_sdk_are_those_of_the_runtime
Tool : sage.Tool @ sage/test_sessions.py::test_the_names_of_the_sdk_are_those_of_the_runtime
ToolCall : sage.ToolCall @ sage/test_sessions.py::test_the_names_of_the_sdk_are_those_of_the_runtime
ToolResult : sage.ToolResult
  @ sage/test_sessions.py::test_the_names_of_the_sdk_are_those_of_the_runtime
ToolRegistry : sage.ToolRegistry
  @ sage/test_sessions.py::test_a_registry_has_tools_by_name_and_in_order
LLMClient : sage.LLMClient
  @ sage/test_sessions.py::test_the_names_of_the_sdk_are_those_of_the_runtime
LLMProvider : sage.LLMProvider
  @ sage/test_sessions.py::test_the_names_of_the_sdk_are_those_of_the_runtime
Message : sage.Message @ sage/test_sessions.py::test_the_names_of_the_sdk_are_those_of_the_runtime
Config : sage.Config @ sage/test_sessions.py::test_the_names_of_the_sdk_are_those_of_the_runtime
SageAgentSDK : sage.SageAgent @ sage/test_code.py::test_python_gets_the_same_events
""",
    ),
    Part(
        "Features",
        14,
        """
Anthropic streaming : wires.ANTHROPIC
  @ wires/test_anthropic.py::test_a_served_stream_comes_in_pieces
Tools in parallel : sage.SageAgent @ sage/test_claims.py::test_eight_tools_run_at_once
Event-driven architecture : sage.SageEvent
  @ sage/test_sessions.py::test_print_json_and_python_tell_the_same
Cancellation reaches everything : sage.SageAgent.turn
  @ sage/test_code.py::test_a_closed_loop_leaves_nothing_behind
Basic permission system : sage.SageMode @ sage/test_code.py::test_plan_only_reads
MCP : tools.mcp_server
  @ tools/mcp/test_commands.py::test_an_agent_uses_a_server_of_the_official_package
Specialised agents (explore) : sage.SageQuote
  @ sage/test_agents.py::test_tasks_of_one_answer_run_at_once
Execution in a sandbox : tools.SandboxPool
  @ sage/test_code.py::test_commands_do_not_leave_the_workspace
Sessions that persist : sage.SageAgent @ sage/test_code.py::test_a_killed_session_goes_on
Retry with backoff : policy.Retry
  @ policy/test_retry.py::test_each_wait_may_be_twice_as_long_and_the_last_attempt_is_final
Plug-ins reloaded while running : sage.Plugin
  @ sage/test_plugins.py::test_a_plugin_adds_tools_commands_agents_and_hooks
Distributed agents : durable @ durable/test_kills.py::test_kills_at_any_moment
Fine-tuning of models : different, because it is out of scope, here as in what asks for it
Web interface : later, with the web door
""",
    ),
    Part(
        "Out of scope",
        4,
        """
Proprietary protocols : different, because none is spoken; HTTP, gRPC, MCP and OpenTelemetry are
Collaboration of several people in real time : different, because a session has one owner; a
  kernel serves many tenants, each with sessions of its own
Integration into editors : server.serve_acp
  @ sage/test_doors.py::test_every_message_of_acp_fits_the_schema
Training and fine-tuning : different, because models are bought, not made
""",
    ),
    Part(
        "Users",
        4,
        """
Someone at a command line : vega code @ sage/test_code.py::test_a_session_reads_edits_and_runs
Someone who builds agents by the SDK : sage.SageAgent
  @ sage/test_code.py::test_python_gets_the_same_events
Someone who embeds it : sdk.Runtime
  @ mcp_server/test_router.py::test_the_example_answers_streams_and_keeps_users_within_their_budgets
Someone who writes tools : tools.tool
  @ sage/test_sessions.py::test_what_lasts_is_named_by_the_turn_and_by_undo
""",
    ),
    Part(
        "Reliability",
        4,
        """
A failing tool does not end the session : sage.SageToolEnded
  @ sage/test_claims.py::test_a_failing_tool_does_not_fail_the_session
Three retries with exponential backoff : policy.Retry
  @ sage/test_claims.py::test_a_provider_that_is_overloaded_is_asked_again
State is recovered after a crash : sage.SageAgent @ sage/test_code.py::test_a_killed_session_goes_on
An error of one agent does not reach others : sdk.Supervisor
  @ runtime/processes/test_nothing_survives.py::test_a_crash_ends_the_children_of_that_life_only
""",
    ),
    Part(
        "Threats",
        4,
        """
Command injection : tools.SandboxSpec
  @ tools/sandbox/test_workspace_attacks.py::test_none_comes_through
Path traversal : tools.Files @ sage/test_code.py::test_files_out_of_reach
Exposure of API keys : telemetry.Redactor @ telemetry/test_canaries.py::test_no_secret_is_stored
Malicious output of tools : policy.sanitise
  @ tools/test_sanitising.py::test_a_result_cannot_close_its_marks
""",
    ),
    Part(
        "What is asked of keys",
        2,
        """
Keys are never on disk : providers.ProviderAccess
  @ models/test_answers.py::test_the_key_is_read_for_every_call
Keys are encrypted in memory : different, because CPython cannot: it copies and moves what a
  program holds; a key is read when a call needs it, and hidden in all that is written
""",
    ),
    Part(
        "Observability",
        12,
        """
Logs as structured JSON : telemetry.LogFormatter
  @ telemetry/test_logs.py::test_a_record_is_a_line_of_json
Library of the logs : different, because it is Python's own logging
Level ERROR : telemetry.LogFormatter @ telemetry/test_logs.py::test_levels_have_names
Level WARN : telemetry.LogFormatter @ telemetry/test_logs.py::test_levels_have_names
Level INFO : telemetry.LogFormatter @ telemetry/test_logs.py::test_levels_have_names
Level DEBUG : telemetry.LogFormatter @ telemetry/test_logs.py::test_levels_have_names
Level TRACE : different, because what it would log is in the traces, call by call
Metrics for Prometheus : sdk.monitoring.MetricsServer
  @ telemetry/test_metrics.py::test_a_runtime_serves_its_metrics
Endpoint /metrics : sdk.monitoring.MetricsServer
  @ telemetry/test_metrics.py::test_only_one_page_is_served
Traces by OpenTelemetry : telemetry.open_sink
  @ telemetry/test_otel.py::test_the_names_are_those_of_the_convention
Export to Jaeger : telemetry.open_sink
  @ telemetry/test_export.py::test_spans_arrive_over_both_protocols
Export by OTLP : telemetry.open_sink @ telemetry/test_otel.py::test_it_sends_to_a_collector
""",
    ),
    Part(
        "Technical constraints",
        13,
        """
Rust, stable : different, because it is a Python package: who embeds it, and who writes tools,
  writes Python
Edition 2021 : different, because there is no Rust; Python is 3.11 or later
Oldest supported version : different, because there is no Rust; the oldest Python is 3.11
Asynchronous runtime : different, because asyncio is Python's own
HTTP client : providers.ConnectionPool @ models/test_closing.py::test_a_connection_is_used_again
Serialization : records.to_json @ sage/test_sessions.py::test_export_gives_the_events_again
Linux, x86-64 : tools.SandboxPool @ sage/test_code.py::test_a_session_reads_edits_and_runs
Linux, arm64 : tools.SandboxPool
  @ tools/sandbox/test_seccomp.py::test_the_kept_filter_is_the_written_one
macOS, x86-64 : tools.SandboxPool @ tools/sandbox/test_seatbelt.py::test_on_a_mac
macOS, arm64 : tools.SandboxPool @ tools/sandbox/test_seatbelt.py::test_on_a_mac
Windows : different, because commands and undo are refused there with the reason; the rest runs
  (tools/sandbox/test_seatbelt.py::test_windows_is_refused_with_the_reason)
FreeBSD : different, because commands are refused there with the reason; the rest runs
WebAssembly : different, because there is no process, file or socket to confine
""",
    ),
    Part(
        "Must and must not",
        9,
        """
Use Rust stable : different, because it is a Python package
Support streams of Anthropic : wires.ANTHROPIC
  @ wires/test_anthropic.py::test_a_served_stream_comes_in_pieces
Have an event bus : ports.Bus @ kernel/test_bus.py::test_what_is_published_fans_out_with_who_did
Keep the interface of tools : ports.Tool
  @ sage/test_sessions.py::test_a_registry_has_tools_by_name_and_in_order
Not break the public names : sage
  @ sage/test_sessions.py::test_the_names_of_the_sdk_are_those_of_the_runtime
Not use unsafe code without audit : different, because there is none to audit: Python only; what
  calls the kernel directly is in tools/openat.py and the sandbox
Not block the asynchronous runtime : just concurrency
  @ telemetry/test_export.py::test_a_failing_collector_keeps_nobody_waiting
Not show secrets in logs : telemetry.Redactor @ telemetry/test_logs.py::test_no_secret_is_logged
Not pass over permissions : policy.Permissions
  @ policy/test_permissions.py::test_a_deny_wins_over_every_allow
""",
    ),
    Part(
        "Should and should not",
        8,
        """
Support all major models : providers.known_models
  @ models/test_catalog.py::test_known_models_are_those_with_a_price
Speak MCP : tools.mcp_server
  @ tools/mcp/test_commands.py::test_an_agent_uses_a_server_of_the_official_package
Have specialised agents : sage.SageQuote
  @ sage/test_agents.py::test_work_writes_and_starts_no_others
Have comprehensive tests : just test @ architecture/test_changes.py::test_every_package_has_tests
Not over-engineer : just shape @ architecture/test_shape.py::test_our_tree_keeps_its_shape
Not add unneeded dependencies : just shape
  @ architecture/test_house.py::test_import_vegakit_loads_nothing_heavy
Not couple parts tightly : just shape @ architecture/test_rules.py::test_our_tree_keeps
Not ignore compatibility : records.from_json
  @ sage/test_document.py::test_a_session_of_an_earlier_version_is_read
""",
    ),
)
