"""Everything that is asked of a language for agents and of its runtime, and ours for it.

A row is `what : ours @ test`. Ours is a phrase of a program in backticks, where the test is a
program below `tests` that holds it; a row of the library (`library file::read`); an instruction
with its number (`op 0x91 LINK`); a name below `vegakit`, a command or a recipe. Other tests are
`path::function` below `tests`. A row of which ours is another thing reads `what : different,
because …`. A line that begins with blanks goes on with the one before. Rows of a part are counted:
the number stands in the heading, so that a row which is lost is missed.
"""

from tests.asked import Part

__all__ = ["PARTS"]

_EXAMPLE = "lang/test_document.py::test_an_example_runs_as_written"
_OVERLAP = "parallel/test_overlap.py::test_three_sends_to_one_process"
_LIBRARY = "vm/test_library.py::test_the_machine_knows_every_pure_function"
_RECORD = "telemetry/test_jsonl.py::test_one_line_per_call"
_CODES = "lang/test_asked.py::test_an_instruction_has_the_number_that_is_asked"

PARTS = (
    Part(
        "Constructs",
        40,
        f"""
agent : `agent Guide` @ language/agents/system_and_message.vega
model : `model "anthropic:claude-sonnet-4-5"` @ language/agents/settings.vega
system : `system "Answer in one word."` @ language/agents/system_and_message.vega
temperature : `temperature` @ language/agents/settings.vega
budget of an agent : `budget` @ language/budgets/agent_budget.vega
budget of an agent for each day : `budget $0.0021/day` @ language/budgets/per_day_with_tools.vega
on_exceed of an agent : `on_exceed allow` @ language/budgets/on_exceed_of_agent.vega
on_exceed of a session : `on_exceed allow` @ language/sessions/allow.vega
tokens in rate_limit : `tokens 1_000 per 1m` @ language/rates/tokens.vega
slots in rate_limit : `slots 2` @ language/rates/slots.vega
budget of a session for each day : different, because a session ends with its run: `vega check`
  refuses a period there, and says to write it for an agent
retry : `retry {{` @ language/retries/max_attempts.vega
max_attempts : `max_attempts` @ language/retries/max_attempts.vega
backoff exponential : `backoff exponential(` @ language/retries/max_attempts.vega
on [rate_limit, overloaded, timeout] : `on [` @ language/retries/only_these.vega
tool of an agent : `tool` @ language/tools/called.vega
circuit_breaker : `circuit_breaker {{` @ language/breakers/opens.vega
threshold : `threshold` @ language/breakers/opens.vega
reset_after : `reset_after` @ language/breakers/opens.vega
spawn : `spawn A` @ language/spawn/basic.vega
supervised by : `supervised by {{` @ language/supervision/max_restarts.vega
strategy : `strategy restart` @ language/supervision/window.vega
max_restarts : `max_restarts` @ language/supervision/max_restarts.vega
window : `window` @ language/supervision/window.vega
spawn async : `spawn async` @ language/async_await/spawn_async.vega
await : `await` @ language/async_await/spawn_async.vega
send : `<-` @ language/sends/to_process.vega
timeout of a send : `timeout` @ language/timeouts/too_late.vega
budget of a send : `budget` @ language/budgets/of_a_send.vega
streaming send : `<~` @ language/streams/chunks.vega
sends that need no other run at once : lang.analysis.dataflow @ {_OVERLAP}
parallel : `parallel {{` @ language/parallel/two.vega
session budget : `session budget` @ language/sessions/caught.vega
try : `try {{` @ language/try_catch/caught.vega
catch BudgetExceeded : `catch BudgetExceeded` @ language/sessions/caught.vega
catch AgentFailed(reason) : `catch AgentFailed(` @ language/spawn/same_name.vega
capabilities : `capabilities [fs::read]` @ language/capabilities/tool_with.vega
allowed_paths : `allowed_paths [` @ language/capabilities/tool_paths.vega
allowed_commands : `allowed_commands [` @ language/capabilities/exec_not_allowed.vega
exec : library exec @ lang/test_asked.py::test_the_library_that_is_asked
""",
    ),
    Part(
        "Examples",
        9,
        f"""
An agent with a budget, retries and a tool : testing.programs @ {_EXAMPLE}
Spawning, also supervised and async : testing.programs @ {_EXAMPLE}
Messages with timeout, budget and stream : testing.programs @ {_EXAMPLE}
Three reviews at once and their sum : testing.programs @ {_EXAMPLE}
A parallel block : testing.programs @ {_EXAMPLE}
A session with a budget, and what remains : testing.programs @ {_EXAMPLE}
Errors that are caught, and a breaker : testing.programs @ {_EXAMPLE}
Tools with capabilities : testing.programs @ {_EXAMPLE}
A failure says why : testing.programs
  @ lang/test_document.py::test_a_failure_is_caught_as_written
""",
    ),
    Part(
        "Strategies and processes",
        16,
        """
restart : `strategy restart` @ language/supervision/window.vega
stop : `strategy stop` @ language/supervision/stop.vega
escalate : policy.supervision @ program/test_processes.py::test_escalate_makes_the_spawner_pay
restart_all : `restart_all` @ language/supervision/group_restart_all.vega
Backoff of a supervisor : `backoff exponential(` @ language/supervision/backoff.vega
Supervisors below supervisors : Supervisor
  @ runtime/processes/test_processes.py::test_a_supervisor_restarts_its_group
A process is no thread : Process
  @ runtime/processes/test_processes.py::test_an_idle_process_is_a_record_and_not_a_task
Thousands at once : program.Bounds
  @ runtime/compiled/test_many_processes.py::test_thousands_live_at_once
Thousands spawned by one program : program.Bounds
  @ runtime/compiled/test_many_processes.py::test_a_program_spawns_thousands_by_two_settings
No memory is shared : `b[0] = 9;` @ language/values/no_aliasing.vega
A failure is isolated : `agent` @ language/supervision/failure_is_no_crash.vega
Link : policy.supervision @ policy/test_signals.py::test_a_link_is_two_way
Monitor : policy.supervision @ policy/test_signals.py::test_a_monitor_is_one_way
Health of a process : Runtime.ps
  @ runtime/processes/test_views.py::test_health_is_how_long_it_is_at_one_message
A process goes on after a kill : vega resume
  @ durability/test_going_on.py::test_a_run_goes_on_after_every_kind_of_failure
Priorities : policy.scheduler @ policy/test_ready_queue.py::test_the_more_urgent_goes_first
""",
    ),
    Part(
        "Scheduler and resources",
        8,
        """
M processes on N threads : different, because what a program does is wait for models: all
  processes are records in one loop, and thousands of them cost no thread
Work stealing : different, because there is one loop a runtime; several runtimes share a store and
  claim runs from it
Others run while one waits : vm.interpreter
  @ runtime/test_slices.py::test_a_program_begins_hundreds_of_requests_in_several_steps
Explicit yields : library process::yield @ lang/test_asked.py::test_the_library_that_is_asked
Token usage is counted : Reply
  @ runtime/test_runtime.py::test_an_ask_gives_text_cost_usage_and_trace
Costs are counted from tokens : prices
  @ runtime/test_runtime.py::test_an_ask_gives_text_cost_usage_and_trace
Request rates by model and by agent : policy.rate
  @ policy/test_rate.py::test_the_burst_goes_at_once_and_the_rest_at_the_rate
Requests at once are limited : policy.rate
  @ policy/test_rate.py::test_slots_are_free_again_on_release
""",
    ),
    Part(
        "Instructions",
        14,
        "\n".join(
            f"{name} = {number} : op {number} {name} @ {_CODES}"
            for number, name in {
                "0x90": "SPAWN_SUPERVISED",
                "0x91": "LINK",
                "0x92": "MONITOR",
                "0x93": "EXIT",
                "0xA0": "SEND_STREAM",
                "0xA1": "STREAM_NEXT",
                "0xA2": "STREAM_DONE",
                "0xB0": "BUDGET_ENTER",
                "0xB1": "BUDGET_EXIT",
                "0xB2": "BUDGET_CHECK",
                "0xB3": "BUDGET_RESERVE",
                "0xC0": "PAR_BEGIN",
                "0xC1": "PAR_SPAWN",
                "0xC2": "PAR_JOIN",
            }.items()
        ),
    ),
    Part(
        "Library",
        17,
        "\n".join(
            f"{name} : library {name} @ lang/test_asked.py::test_the_library_that_is_asked"
            for name in (
                "process::self process::exit process::sleep trace::span trace::event "
                "trace::set_attribute file::read file::write file::exists http::get http::post"
            ).split()
        )
        + """
budget::remaining() -> float : different, because it is money, which is exact
budget::used() -> float : different, because it is money, which is exact
budget::limit() -> float : different, because it is money, which is exact
ProcessId : `process::self()` @ language/process/self.vega
Span : different, because a program is given the id of the span it began, as text
Response : lang.types.RESPONSE @ lang/test_asked.py::test_a_response_has_a_status_and_a_body
""",
    ),
    Part(
        "Fields of a record of a call",
        11,
        "\n".join(
            f"{field} : telemetry.JsonLinesSink @ lang/test_asked.py::test_the_fields_of_a_record"
            for field in (
                "trace_id span_id agent model input_tokens output_tokens cost_usd latency_ms "
                "status retries parent_span"
            ).split()
        ),
    ),
    Part(
        "Exports",
        5,
        f"""
OTLP : telemetry.otel @ telemetry/test_export.py::test_spans_arrive_over_both_protocols
JSON lines : telemetry.jsonl @ {_RECORD}
SQLite : telemetry.sqlite
  @ telemetry/test_sqlite.py::test_it_holds_the_records_of_the_json_lines
A share of the runs (SampleRate) : telemetry
  @ telemetry/test_sinks.py::test_a_share_of_the_runs_is_recorded
A provider of the application (WithTracerProvider) : telemetry.otel
  @ telemetry/test_otel.py::test_two_sinks_share_a_provider
""",
    ),
    Part(
        "The interface of a library",
        28,
        """
SendAsync, Await : Process
  @ runtime/processes/test_processes.py::test_a_send_starts_at_once_and_sends_overlap
Batch : Runtime.batch @ runtime/test_runtime.py::test_a_batch_runs_at_once_and_answers_in_order
Parallel : map_all @ runtime/test_patterns.py::test_answers_keep_the_order_of_the_items
RateLimits of an orchestrator : policy.rate
  @ policy/test_rate.py::test_the_burst_goes_at_once_and_the_rest_at_the_rate
TokenBucket.Rate : `requests` @ language/rates/queue.vega
TokenBucket.Burst : `burst` @ language/rates/burst.vega
Queue : `queue` @ language/rates/queue.vega
Reject : `strategy reject` @ language/rates/reject.vega
Backpressure : policy.rate
  @ policy/test_rate.py::test_beyond_the_places_a_queue_refuses_and_backpressure_slows_down
CircuitBreaker.Threshold : `threshold` @ language/breakers/opens.vega
CircuitBreaker.ResetAfter : `reset_after` @ language/breakers/closes_again.vega
CircuitBreaker.OnOpen, OnClose : Runtime.on
  @ runtime/processes/test_processes.py::test_news_of_money_breakers_and_stuck_processes
SendStream with chunks : Runtime.stream
  @ runtime/processes/test_processes.py::test_a_stream_says_it_piece_by_piece
SendStream with a callback : different, because a stream is walked with `async for`, which waits
  where a callback would have to buffer
Err of a stream : `catch` @ language/streams/cut.vega
Budget.Limit : Agent
  @ runtime/test_runtime.py::test_the_budget_of_an_agent_holds_for_its_whole_tool_loop
Budget.OnExceed Block, Warn, Allow : Agent
  @ runtime/test_exceeding.py::test_each_word_of_an_agent
WithBudget : Runtime.budget
  @ runtime/test_runtime.py::test_a_budget_block_caps_the_asks_written_in_it
BudgetRemaining : Runtime.remaining
  @ runtime/test_runtime.py::test_a_budget_block_caps_the_asks_written_in_it
BudgetUsed : Runtime.spent
  @ runtime/test_runtime.py::test_an_ask_takes_a_part_of_what_is_there
RetryPolicy.MaxAttempts : `max_attempts` @ language/retries/max_attempts.vega
ExponentialBackoff Initial, Multiplier, Max : policy.retry
  @ policy/test_backoff.py::test_it_is_the_formula
RetryOn : `on [` @ language/retries/only_these.vega
Retries are no restarts : `max_attempts` @ language/supervision/attempts_are_one.vega
Capabilities of a tool : tool @ tools/test_rights.py::test_a_tool_says_what_it_declared
AllowedPaths, AllowedCommands : tool
  @ policy/test_command_rules.py::test_a_rule_fits_word_for_word
Link : Process @ runtime/processes/test_processes.py::test_links_take_each_other_along
Monitor : Process @ runtime/processes/test_processes.py::test_exits_are_told_once
""",
    ),
    Part(
        "What the library adds",
        10,
        """
Memory : ports.Memory @ store/test_memories.py::test_a_memory
Context that grows too long : agent
  @ agent/test_turn_history.py::test_a_summary_stands_for_what_was_dropped
Patterns of orchestration : race
  @ runtime/test_patterns.py::test_the_first_success_wins_and_the_others_have_left
Budgets within budgets : Runtime.budget
  @ runtime/test_runtime.py::test_an_ask_takes_a_part_of_what_is_there
Tools in YAML : tools @ tools/yaml_tools/test_tools.py::test_the_model_is_told_what_the_file_says
Middleware of tools : different, because what middleware would do is declared: timeout, rights and
  rate are settings of a tool or agent, and the gate records every call
Persistence that can be exchanged : store.registry @ store/test_memories.py::test_a_memory
Providers that can be exchanged : ports.Model
  @ runtime/test_runtime.py::test_models_by_name_come_from_outside
Middleware for web frameworks : server.router
  @ mcp_server/test_router.py::test_the_example_answers_streams_and_keeps_users_within_their_budgets
Checkpoints of processes : vega resume
  @ durability/test_going_on.py::test_a_run_goes_on_after_every_kind_of_failure
""",
    ),
    Part(
        "Defaults",
        6,
        """
Three attempts : policy.retry @ lang/test_asked.py::test_the_defaults_that_are_asked
Backoff 100 ms, doubled, at most 5 s : policy.retry
  @ lang/test_asked.py::test_the_defaults_that_are_asked
A breaker opens after 5 : policy.rate @ lang/test_asked.py::test_the_defaults_that_are_asked
A breaker tries again after 30 s : policy.rate
  @ lang/test_asked.py::test_the_defaults_that_are_asked
Three restarts : policy.supervision @ lang/test_asked.py::test_the_defaults_that_are_asked
Within 60 s : policy.supervision @ lang/test_asked.py::test_the_defaults_that_are_asked
""",
    ),
)
