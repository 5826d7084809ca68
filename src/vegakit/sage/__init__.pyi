from vegakit.conversation import (
    Message as Message,
    ToolCall as ToolCall,
    ToolResult as ToolResult,
)
from vegakit.host import Agent as Agent
from vegakit.ports import Tool as Tool
from vegakit.sage.coding_agent import context_share as context_share
from vegakit.sage.edits import (
    Edited as Edited,
    replace_each as replace_each,
    replace_once as replace_once,
)
from vegakit.sage.events import (
    UNBILLED as UNBILLED,
    EndReason as EndReason,
    SageCompacted as SageCompacted,
    SageCost as SageCost,
    SageEnd as SageEnd,
    SageEvent as SageEvent,
    SageMode as SageMode,
    SageQuestion as SageQuestion,
    SageQuote as SageQuote,
    SageRetry as SageRetry,
    SageSession as SageSession,
    SageText as SageText,
    SageToolBegan as SageToolBegan,
    SageToolEnded as SageToolEnded,
    SageToolOutput as SageToolOutput,
    SageTurn as SageTurn,
    SageWaiting as SageWaiting,
    check_mode as check_mode,
    event_line as event_line,
    quote_text as quote_text,
    usual_mode as usual_mode,
)
from vegakit.sage.extensions.loading import CommandInfo as CommandInfo
from vegakit.sage.extensions.records import (
    Plugin as Plugin,
    PluginHook as PluginHook,
    SageCommand as SageCommand,
    SageSubAgent as SageSubAgent,
)
from vegakit.sage.history import (
    Rewound as Rewound,
    RewoundSession as RewoundSession,
    SessionInfo as SessionInfo,
    SessionMatch as SessionMatch,
    SessionState as SessionState,
    delete_session as delete_session,
    export_session as export_session,
    list_prompts as list_prompts,
    list_sessions as list_sessions,
    redo_turns as redo_turns,
    rename_session as rename_session,
    search_sessions as search_sessions,
    transcript as transcript,
    undo_turns as undo_turns,
    undoable_turns as undoable_turns,
)
from vegakit.sage.live import (
    LiveSession as LiveSession,
    begin_session as begin_session,
    mark_stopped as mark_stopped,
    prompted as prompted,
)
from vegakit.sage.names import (
    AgentExecution as AgentExecution,
    AgentState as AgentState,
    Config as Config,
    LLMClient as LLMClient,
    LLMProvider as LLMProvider,
)
from vegakit.sage.patches import (
    FilePatch as FilePatch,
    Patched as Patched,
    PatchKind as PatchKind,
    PatchPart as PatchPart,
    apply_parts as apply_parts,
    read_patch as read_patch,
)
from vegakit.sage.session import SageAgent as SageAgent
from vegakit.sage.sessions import (
    SessionMovedError as SessionMovedError,
    SessionStore as SessionStore,
    TurnRecord as TurnRecord,
)
from vegakit.sage.tools import ToolRegistry as ToolRegistry, Workspace as Workspace
from vegakit.sage.undo.records import (
    Restored as Restored,
    TurnChanges as TurnChanges,
    UndoLimits as UndoLimits,
    UndoTurn as UndoTurn,
    Unrestored as Unrestored,
)
from vegakit.sage.undo.turns import (
    UndoStore as UndoStore,
    open_undo as open_undo,
    undo_folder as undo_folder,
)
from vegakit.sage.worktrees import (
    Worktree as Worktree,
    list_worktrees as list_worktrees,
    open_worktree as open_worktree,
    remove_worktree as remove_worktree,
)
