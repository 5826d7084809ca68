"""Whether a whole tool call runs: by rules about the tool, and about all that it declares.

    allow tool::search      ask tool::pay      deny tool::shell

| rules about `tool::NAME` | of what it declares  | the call is                            |
|--------------------------|----------------------|----------------------------------------|
| deny                     | whatever             | denied                                 |
| whatever                 | something is denied  | denied                                 |
| allow or ask             |                      | as that rule says: it names the tool   |
| none                     | something asks first | asked about                            |
| none                     | all is allowed       | allowed                                |
| none                     | it declares nothing  | as the mode says of what is unknown    |

A tool that declares an empty list wants nothing of the world; one that declares nothing may want
anything.
"""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from vegakit.policy.capability.grants import Grant
from vegakit.policy.capability.wanted import Allowed, Denied, Use, Wanted
from vegakit.policy.permissions.rules import (
    AskFirst,
    PermissionMode,
    Permissions,
    is_ruled,
    permit,
)

__all__ = ["permit_call"]

_ANY_TOOL = Grant(("tool",))
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_]|^(?=\d)")


def permit_call(
    permissions: Permissions, tool: str, wanted: Sequence[Wanted] | None, *, sandboxed: bool
) -> Allowed | AskFirst | Denied:
    """`wanted` is what it declares to want for these arguments, None if it declares nothing."""
    named = Use(f"tool::{_NOT_IN_A_NAME.sub('_', tool)}")
    verdicts = [permit(permissions, one, sandboxed=sandboxed) for one in wanted or ()]
    mode = permissions.mode if wanted is None else PermissionMode.ASK
    as_tool = replace(permissions, grant=_ANY_TOOL, mode=mode)
    own = permit(as_tool, named, sandboxed=sandboxed)
    if denied := [one for one in (own, *verdicts) if isinstance(one, Denied)]:
        return denied[0]
    if wanted is None or is_ruled(permissions, named):
        return own
    return next((one for one in verdicts if isinstance(one, AskFirst)), Allowed(named))
