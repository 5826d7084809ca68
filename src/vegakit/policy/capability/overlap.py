"""Whether two pieces of work could notice each other, so that their order matters.

| one has         | the other has             | order matters                                  |
|-----------------|---------------------------|------------------------------------------------|
| nothing         | anything                  | no                                             |
| `fs::read`      | `fs::read`                | no                                             |
| `fs::write`     | `fs::read` or `fs::write` | if a path of one is, holds or lies in another  |
| `net::get`      | `fs::*` or `net::get`     | no                                             |
| `process::exec` | anything                  | yes                                            |
| `net::post`     | anything                  | yes                                            |
| any other name  | anything                  | yes: nobody knows what it does                 |

`fs` alone is such another name: it covers more than reading and writing. What stands below one of
the three mild names in the tree is a kind of it. The answer may be "yes" too often and is never
"no" wrongly, as long as no path is a link to another.
"""

from vegakit.policy.capability.grants import Grant
from vegakit.policy.capability.names import GET, READ, WRITE, covers
from vegakit.policy.capability.path_rules import rules_touch

__all__ = ["overlap"]

_MILD = frozenset({READ, WRITE, GET})


def overlap(a: Grant, b: Grant) -> bool:
    """A grant does no more than any of its links, so one pair that keeps apart is enough."""
    return all(_links_overlap(x, y) for x in a.links() for y in b.links())


def _links_overlap(x: Grant, y: Grant) -> bool:
    x_uses, y_uses = _uses(x), _uses(y)
    if not x_uses or not y_uses:
        return False
    if not x_uses | y_uses <= _MILD:
        return True
    if WRITE not in x_uses | y_uses or {GET} in (x_uses, y_uses):
        return False
    return any(rules_touch(one, other) for one in x.paths for other in y.paths)


def _uses(link: Grant) -> set[str]:
    return {
        name
        for name in link.capabilities
        if not any(covers(denial, name) for denial in link.denials)
    }
