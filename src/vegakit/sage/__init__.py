"""Sage, the coding agent (edge, host).

What a turn writes can be taken back, whoever wrote it: an edit tool, a shell command, an MCP tool.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "undo.records": "Restored TurnChanges UndoLimits UndoTurn Unrestored",
        "undo.turns": "UndoStore open_undo undo_folder",
    },
)
