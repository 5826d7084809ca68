"""Turn events of a session and keys into what the terminal of the coding agent shows, and into
actions. Pure: the time is an argument.

    event ─▶ on_event ─▶ items, todo, agents, files, jobs, money
    question ─▶ on_question ─▶ an approval at the end of the conversation
    painted ─▶ on_shown ─▶ its time on the screen begins
    key ─▶ on_key ─▶ an answer to the approval on the screen, or None: the key is text

An approval is answered by a key only if its last line was on the screen for 300 ms in which no key
was pressed, and nothing stands in the prompt line, or the person has moved to it with Tab. So what
is typed when a question comes up goes where it was meant to go.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from vegakit.cli.terminal.approvals import command_in, exact_action
from vegakit.cli.terminal.diffs import FATE_DELETED, changes_of, fields_of, is_cache
from vegakit.cli.terminal.state import (
    ARMED_AFTER_MS,
    KEPT_OUTPUT,
    KEPT_RESULT,
    Action,
    AgentView,
    AnswerQuestion,
    ApprovalItem,
    ApprovalState,
    BeginTurn,
    ChangedFile,
    EditText,
    EndItem,
    EndTree,
    GiveBack,
    JobView,
    NoteItem,
    PromptItem,
    QuoteItem,
    StopTurn,
    TextItem,
    TodoStep,
    ToolItem,
    ToolState,
    TurnState,
    TypedPrompt,
    ViewState,
)
from vegakit.control import Question
from vegakit.errors import ErrorClass
from vegakit.money import NANOS
from vegakit.sage import (
    EndReason,
    SageCompacted,
    SageCost,
    SageEnd,
    SageEvent,
    SageQuote,
    SageRetry,
    SageSession,
    SageText,
    SageToolBegan,
    SageToolEnded,
    SageToolOutput,
    SageTurn,
    SageWaiting,
)

_REFUSED = ("CapabilityDenied", "Declined", "ApprovalDeclined")
_DOUBLE_MS = 1_500
"""Two stops within this time end the tree."""


# Events.


def on_event(state: ViewState, event: SageEvent, now: int) -> None:
    """Take what a session tells."""
    if not isinstance(event, SageCost | SageWaiting | SageSession):
        state.heard_ms = now
    task = getattr(event, "task", "")
    if task:
        _on_sub_agent(state, task, event)
        return
    _ON_EVENT[type(event)](state, event, now)


def _on_session(state: ViewState, event: SageSession, now: int) -> None:
    del now
    if event.model != state.model:
        state.real_model, state.model_price = "", ""
    state.name, state.run, state.folder = event.session, event.run, event.folder
    state.model, state.mode = event.model, event.mode
    state.money.at_most = None if event.budget_usd is None else nanos_of(event.budget_usd)
    if state.money.left is None:
        state.money.left = state.money.at_most


def _on_turn(state: ViewState, event: SageTurn, now: int) -> None:
    _end_calls(state, ToolState.STOPPED, now)
    state.turn, state.turn_state, state.began_ms = event.turn, TurnState.WORKING, now
    state.spent_before = state.money.spent
    state.items.append(PromptItem(turn=event.turn, text=event.prompt))


def _end_calls(state: ViewState, how: ToolState, now: int) -> None:
    """End what a turn has left open: no result of it will come any more."""
    _close_text(state)
    for item in state.tools.values():
        item.state, item.ended_ms, item.version = how, now, item.version + 1
    for agent in state.agents.values():
        if agent.state is ToolState.WORKING:
            agent.state, agent.activity = how, ""
    for asked in [*state.waiting]:
        _settle(state, asked, ApprovalState.GONE)
    state.retry_ms, state.retry_told = 0, ""
    state.tools.clear()
    state.jobs.clear()


def _on_text(state: ViewState, event: SageText, now: int) -> None:
    del now
    if state.turn_state is TurnState.STOPPING or not event.text:
        return
    last = _open_text(state)
    if last is not None:
        last.text += event.text
        last.version += 1
    else:
        state.items.append(TextItem(text=event.text))


def _open_text(state: ViewState) -> TextItem | None:
    """Return the text that goes on; a note that came meanwhile stands below it, and does not cut
    it in two."""
    for item in reversed(state.items):
        if isinstance(item, TextItem) and item.is_open:
            return item
        if not isinstance(item, NoteItem):
            break
    return None


def _close_text(state: ViewState, *, is_cut: bool = False) -> None:
    last = _open_text(state)
    if last is not None:
        last.is_open, last.is_cut, last.version = False, is_cut, last.version + 1


def _on_tool_began(state: ViewState, event: SageToolBegan, now: int) -> None:
    _close_text(state)
    if (before := state.tools.get(event.id)) is not None:  # it is begun again
        before.state, before.ended_ms, before.version = ToolState.STOPPED, now, before.version + 1
    item = ToolItem(id=event.id, name=event.name, arguments=event.arguments, began_ms=now)
    state.items.append(item)
    state.tools[event.id] = item
    given = fields_of(event.arguments)
    if event.name == "task":
        kind, prompt = str(given.get("agent", "")), str(given.get("prompt", ""))
        state.agents[event.id] = AgentView(event.id, kind, prompt)
    if event.name == "shell" and given.get("background"):
        state.jobs[event.id] = JobView(event.id, str(given.get("command", "")), now)


def _on_tool_output(state: ViewState, event: SageToolOutput, now: int) -> None:
    del now
    item = state.tools.get(event.id)
    if item is None or state.turn_state is TurnState.STOPPING:
        return
    item.output = (item.output + event.text)[-KEPT_OUTPUT:]
    item.output_lines += event.text.count("\n")
    item.version += 1


def _on_tool_ended(state: ViewState, event: SageToolEnded, now: int) -> None:
    item = state.tools.pop(event.id, None)
    if item is None:
        item = ToolItem(id=event.id, name=event.name, began_ms=now)
        state.items.append(item)
    item.state = _state_of(event)
    item.ended_ms, item.output = now, ""
    shown = plain(event.result)
    item.result, item.result_lines = shortened(shown), shown.count("\n") + 1
    item.is_told = item.state is ToolState.REFUSED and _has_reason(state, item.result)
    item.version += 1
    if agent := state.agents.get(event.id):
        agent.state, agent.activity = item.state, ""
    if not event.is_error:
        _note_effects(state, item)


def _has_reason(state: ViewState, result: str) -> bool:
    """Whether a refusal is the answer of a person to a question that stands in this turn."""
    for one in reversed(state.items):
        if isinstance(one, PromptItem):
            return False
        if isinstance(one, ApprovalItem) and one.state is ApprovalState.NO and one.reason:
            return result.endswith(f"declined by a person: {one.reason}")
    return False


def _note_effects(state: ViewState, item: ToolItem) -> None:
    if item.name == "todo":
        state.todo = _steps(item.arguments)
    for change in changes_of(item.name, item.arguments, item.result):
        known = state.changed.setdefault(change.path, ChangedFile(change.path))
        known.added += change.added
        known.removed += change.removed
        known.is_deleted = change.fate == FATE_DELETED
    if item.name == "job":
        _note_job(state, item)


def _note_job(state: ViewState, item: ToolItem) -> None:
    """Note that a job has ended; the jobs of a turn are numbered as they were begun."""
    number = fields_of(item.arguments).get("id")
    begun = [*state.jobs.values()]
    is_over = any(word in item.result for word in ("ended with exit code", "was stopped"))
    if isinstance(number, int) and 0 < number <= len(begun) and is_over:
        begun[number - 1].is_running = False


def _on_sub_agent(state: ViewState, task: str, event: SageEvent) -> None:
    """Note what a sub-agent does in its row of the tree, and under the call that started it."""
    agent, item = state.agents.get(task), state.tools.get(task)
    if agent is None or item is None:
        return
    if isinstance(event, SageToolBegan):
        agent.calls += 1
        agent.activity = f"{event.name} {first_argument(event.arguments)}"
        item.activity, item.version = agent.activity, item.version + 1


def _on_quote(state: ViewState, event: SageQuote, now: int) -> None:
    del now
    state.items.append(QuoteItem(quote=event))
    each = nanos_of(event.worst_usd) // max(1, len(event.tasks))
    for task in event.tasks:
        if agent := state.agents.get(task):
            agent.at_most = each


def _on_compacted(state: ViewState, event: SageCompacted, now: int) -> None:
    del now
    gone = ", ".join(f"{many:,} {what.replace('_', ' ')}" for what, many in event.dropped.items())
    size = f"{event.bytes_before:,} to {event.bytes_after:,} bytes"
    text = f"the conversation was summed up, {size}; out of the model's sight: {gone}"
    state.items.append(NoteItem(kind="compaction", text=text))


def _on_waiting(state: ViewState, event: SageWaiting, now: int) -> None:
    # That and how long it is waited for stands above the prompt line, from the first second on.
    del now
    state.silent_limit_ms = round(1000 * event.limit_s)


def _on_retry(state: ViewState, event: SageRetry, now: int) -> None:
    """Tell of a call that is made again, of several in a row in one note: a storm of refusals must
    not fill the screen. When it is made stands above the prompt line."""
    _close_text(state, is_cut=True)
    state.retry_ms = now + round(1000 * event.wait_s)
    state.retry_told = f"try {event.attempt} of {event.attempts}"
    text = f"{without_advice(event.message)}; {state.retry_told}"
    last = state.items[-1] if state.items else None
    if isinstance(last, NoteItem) and last.kind == "retry":
        last.text, last.version = text, last.version + 1
    else:
        state.items.append(NoteItem(kind="retry", text=text))


def _on_cost(state: ViewState, event: SageCost, now: int) -> None:
    del now
    if event.spent_usd is not None:
        state.money.spent = nanos_of(event.spent_usd)
    state.money.left = None if event.left_usd is None else nanos_of(event.left_usd)


def _on_end(state: ViewState, event: SageEnd, now: int) -> None:
    is_done = event.reason is EndReason.DONE
    _end_calls(state, ToolState.DONE if is_done else ToolState.STOPPED, now)
    if event.spent_usd is not None:
        state.money.spent = nanos_of(event.spent_usd)
        if state.money.at_most is not None:
            state.money.left = max(0, state.money.at_most - state.money.spent)
    state.money.unbilled += nanos_of(event.unbilled_usd)
    known = [f"/{path}" for path in state.changed]
    for path in event.paths:
        if not is_cache(path) and not any(one.endswith(f"/{path}") for one in known):
            state.changed[path] = ChangedFile(path)  # a command wrote it
    spent = max(0, state.money.spent - state.spent_before)
    took_ms, is_at_most = max(0, now - state.began_ms), state.money.unbilled > 0
    state.items.append(EndItem(end=event, took_ms=took_ms, spent=spent, is_at_most=is_at_most))
    state.turn_state = TurnState.IDLE


_ON_EVENT: dict[type[SageEvent], Callable[[ViewState, Any, int], None]] = {
    SageSession: _on_session,
    SageTurn: _on_turn,
    SageText: _on_text,
    SageToolBegan: _on_tool_began,
    SageToolOutput: _on_tool_output,
    SageToolEnded: _on_tool_ended,
    SageQuote: _on_quote,
    SageCompacted: _on_compacted,
    SageWaiting: _on_waiting,
    SageRetry: _on_retry,
    SageCost: _on_cost,
    SageEnd: _on_end,
}


# Questions.


def on_question(state: ViewState, question: Question) -> list[Action]:
    """Show a question, or answer it if this person allowed exactly this action before."""
    item = ApprovalItem(
        id=question.id,
        process=question.process,
        text=question.text,
        permits=question.permits,
        action=question.action,
        expires_ms=question.expires_ms,
    )
    _close_text(state)
    state.items.append(item)
    if question.permits and exact_action(question.text) in state.always:
        item.state = ApprovalState.ALWAYS
        return [AnswerQuestion(item.id, True, item.action)]
    state.waiting.append(item)
    return []


def on_shown(state: ViewState, item: ApprovalItem, now: int) -> None:
    """Note that the last line of a question is on the screen."""
    if item.shown_ms is None and item is state.asked:
        item.shown_ms = now


def on_hidden(state: ViewState) -> None:
    """Note that the question is not on the screen any more: its time begins anew."""
    if state.asked is not None:
        state.asked.shown_ms = None


def on_withdrawn(state: ViewState, open_ids: set[str]) -> None:
    """Take away the questions that are not open any more: answered elsewhere, or too late."""
    for item in [*state.waiting]:
        if item.id not in open_ids:
            _settle(state, item, ApprovalState.GONE)


def is_armed(state: ViewState, now: int, *, is_draft_empty: bool) -> bool:
    """Return whether a key is an answer to the question on the screen."""
    asked = state.asked
    if asked is None or asked.shown_ms is None or state.replying_to:
        return False
    is_meant = is_draft_empty or state.has_focus_on_approval
    is_quiet = now - max(asked.shown_ms, state.last_key_ms) >= ARMED_AFTER_MS
    return is_meant and is_quiet


def _settle(state: ViewState, item: ApprovalItem, how: ApprovalState, reason: str = "") -> None:
    item.state, item.reason, item.version = how, reason, item.version + 1
    state.waiting.remove(item)
    state.has_focus_on_approval = False
    if state.replying_to == item.id:
        state.replying_to, state.is_editing = "", False
    # The next one was drawn below this one, and was not what the key was for.
    on_hidden(state)


# Keys.


def on_key(state: ViewState, key: str, now: int, *, is_draft_empty: bool) -> list[Action] | None:
    """Take a key. None says that it means nothing here: it goes to the prompt line."""
    armed = is_armed(state, now, is_draft_empty=is_draft_empty)
    state.last_key_ms = now
    if key == "escape":
        return _on_escape(state, now)
    asked = state.asked
    if key == "tab" and asked is not None and not state.replying_to:
        state.has_focus_on_approval = not state.has_focus_on_approval
        return []
    if key == "up" and is_draft_empty and state.queue and not state.replying_to:
        return _take_back(state)
    if not armed or asked is None or not asked.permits:
        return None
    answer = _ON_APPROVAL.get(key)
    return None if answer is None else answer(state, asked)


def _approve(state: ViewState, asked: ApprovalItem) -> list[Action]:
    _settle(state, asked, ApprovalState.YES)
    return [AnswerQuestion(asked.id, True, asked.action)]


def _approve_always(state: ViewState, asked: ApprovalItem) -> list[Action]:
    state.always.add(exact_action(asked.text))
    _settle(state, asked, ApprovalState.ALWAYS)
    return [AnswerQuestion(asked.id, True, asked.action)]


def _decline(state: ViewState, asked: ApprovalItem) -> list[Action]:
    state.replying_to, state.is_editing = asked.id, False
    return [EditText("")]


def _edit(state: ViewState, asked: ApprovalItem) -> list[Action]:
    state.replying_to, state.is_editing = asked.id, True
    return [EditText(command_in(asked.text))]


def _explain(state: ViewState, asked: ApprovalItem) -> list[Action]:
    del state
    asked.explains, asked.version = not asked.explains, asked.version + 1
    return []


_ON_APPROVAL: Mapping[str, Callable[[ViewState, ApprovalItem], list[Action]]] = {
    "y": _approve,
    "a": _approve_always,
    "n": _decline,
    "e": _edit,
    "question_mark": _explain,
    "?": _explain,
}


def _on_escape(state: ViewState, now: int) -> list[Action]:
    """Take back what is being typed to a question, or stop the turn and give back the prompts that
    wait: who stops a turn does not want them said to what it has left. Twice ends the tree."""
    if state.replying_to:
        state.replying_to, state.is_editing = "", False
        return [EditText("")]
    if state.has_focus_on_approval:
        state.has_focus_on_approval = False
        return []
    last, state.last_stop_ms = state.last_stop_ms, now
    if last is not None and now - last <= _DOUBLE_MS and state.turn_state is TurnState.STOPPING:
        return [EndTree()]
    if state.turn_state is TurnState.WORKING:
        state.turn_state = TurnState.STOPPING
        _close_text(state)
        return [*_take_back(state), StopTurn()]
    return _take_back(state)


def _take_back(state: ViewState) -> list[Action]:
    """Give the prompts that wait back to the prompt line, the last first: each goes before what
    stands there."""
    waiting, state.queue[:] = [*state.queue], []
    return [GiveBack(prompt.text) for prompt in reversed(waiting)]


def on_submit(state: ViewState, prompt: TypedPrompt) -> list[Action]:
    """Take what stands in the prompt line: an answer to a question, a prompt, or one that waits
    until the turn has ended."""
    asked = state.asked
    if asked is not None and state.replying_to == asked.id:
        return _on_reply(state, asked, prompt.text.strip())
    if asked is not None and not asked.permits and prompt.text.strip():
        _settle(state, asked, ApprovalState.ANSWERED, prompt.text)
        return [AnswerQuestion(asked.id, prompt.text, asked.action)]
    if not prompt.text.strip():
        return []
    if state.is_working or state.queue:
        state.queue.append(prompt)
        return []
    return begin(state, prompt)


def _on_reply(state: ViewState, asked: ApprovalItem, text: str) -> list[Action]:
    reason = f"do this instead: {text}" if state.is_editing and text else text
    _settle(state, asked, ApprovalState.NO, reason)
    return [AnswerQuestion(asked.id, f"no, {reason}" if reason else False, asked.action)]


def begin(state: ViewState, prompt: TypedPrompt) -> list[Action]:
    """Begin a turn: from here on it works, whatever is told of it later."""
    state.turn_state, state.heard_ms, state.silent_limit_ms = TurnState.WORKING, None, 0
    return [BeginTurn(prompt)]


def next_turn(state: ViewState) -> list[Action]:
    """Begin the next prompt that waits, if nothing goes on."""
    if state.is_working or not state.queue:
        return []
    return begin(state, state.queue.pop(0))


# Words.


def cut_text(state: ViewState) -> str:
    """Return what has come of the answer that goes on; what is before a call was said whole."""
    for item in reversed(state.items):
        if isinstance(item, TextItem):
            return "" if item.is_cut else item.text
        if not isinstance(item, NoteItem):
            break
    return ""


def plain(text: str) -> str:
    """Return a result without the marks that are for the model."""
    return text.replace("<untrusted>\n", "").replace("\n</untrusted>", "").strip("\n")


def without_advice(message: str) -> str:
    """Return why a call failed, without what a person may do: it is made again by itself."""
    for one in ErrorClass:
        message = message.replace(one.next_step, "") if one.next_step else message
    return message


def shortened(text: str) -> str:
    """Return the beginning and the end of a long text."""
    if len(text) <= KEPT_RESULT:
        return text
    half = KEPT_RESULT // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def first_argument(arguments: object) -> str:
    """Return what a call is about: its first argument, a path, a pattern or a command."""
    first = next(iter(fields_of(arguments).values()), "")
    return first if isinstance(first, str) else ""


def _steps(arguments: object) -> list[TodoStep]:
    items = fields_of(arguments).get("items")
    steps = [fields_of(one) for one in cast("list[Any]", items)] if isinstance(items, list) else []
    return [TodoStep(str(one.get("text", "")), bool(one.get("done"))) for one in steps]


def _state_of(event: SageToolEnded) -> ToolState:
    if not event.is_error:
        is_cut = event.name == "shell" and event.result.startswith("stopped by the person")
        return ToolState.STOPPED if is_cut else ToolState.DONE
    return ToolState.REFUSED if event.result.startswith(_REFUSED) else ToolState.FAILED


def nanos_of(usd: float) -> int:
    """Return dollars as nano-dollars."""
    return round(usd * NANOS)
