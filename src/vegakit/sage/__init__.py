"""Sage, the coding agent (edge, host): a session in a folder, with one budget, that goes on after a
kill.

async with SageAgent("project", budget="$1") as sage:
    async for event in sage.turn("Fix the failing test."):
        print(event)
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.sage.edits import Edited as Edited, replace_once as replace_once
    from vegakit.sage.events import (
        EndReason as EndReason,
        SageCost as SageCost,
        SageEnd as SageEnd,
        SageEvent as SageEvent,
        SageMode as SageMode,
        SageSession as SageSession,
        SageText as SageText,
        SageToolBegan as SageToolBegan,
        SageToolEnded as SageToolEnded,
        SageTurn as SageTurn,
        event_line as event_line,
    )
    from vegakit.sage.session import SageAgent as SageAgent
    from vegakit.sage.tools import Workspace as Workspace
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
        "edits": "Edited replace_once",
        "events": (
            "EndReason SageCost SageEnd SageEvent SageMode SageSession SageText "
            "SageToolBegan SageToolEnded SageTurn event_line"
        ),
        "session": "SageAgent",
        "tools": "Workspace",
        "undo.records": "Restored TurnChanges UndoLimits UndoTurn Unrestored",
        "undo.turns": "UndoStore open_undo undo_folder",
    },
)
