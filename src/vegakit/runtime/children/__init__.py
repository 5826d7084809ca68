"""OS children: started by one owner, and gone as whole trees when they, it or the runtime ends.

    Children ── starts ──▶ Child    a command and everything it started
       └── asks ──▶ launcher ──▶ a warden for each child; see `launcher`

Python in the runtime neither forks nor runs `preexec_fn`; the launcher is small, so it forks fast.
"""

from vegakit.runtime.children.child import Child
from vegakit.runtime.children.owning import Children

__all__ = ["Child", "Children"]
