"""Whether a body may do what it does, as far as the source tells: rights are written beside it
(pure).
"""

import re

from vegakit.lang.check.context import BodyCheck
from vegakit.lang.diagnostics import Edit
from vegakit.lang.library import LIBRARY
from vegakit.lang.syntax.tree import Call, FnDecl, Grants, Node, Text, ToolDecl

# Whether a body may do what it does, as far as the source tells: rights are written beside it.


def need(body: BodyCheck, node: Node, capability: str, what: str) -> None:
    """Each capability that is lacking is reported once for a body."""
    grants = _grants(body)
    granted = [] if grants is None else [cap.name for cap in grants.capabilities or ()]
    if capability in body.lacking:
        return
    if any(_covers(name, capability) for name in granted):
        if grants is not None:
            _must_name(body, node, capability, grants, what)
        return
    body.lacking.add(capability)
    message = f"{what} needs the capability {capability}, which {_owner(body)} does not have"
    written, edit = _clause(body, grants, capability)
    if isinstance(body.owner, ToolDecl) and (grants is None or grants.capabilities is None):
        body.reports.warn(
            "missing-capability", node, f"{message}: it will be denied", written, edit
        )
    else:
        body.reports.error("missing-capability", node, message, written, edit)


_HOSTS = ("hosts", "allowed_hosts", "host", "api.example.com")
_NAMED = {
    "net::get": _HOSTS,
    "net::post": _HOSTS,
    "process::exec": ("commands", "allowed_commands", "command", "pytest -q **"),
}
"""Capabilities that allow nothing until a clause names what: the field of the tree, the clause, the
word for it, and an example."""
_OF_URL = re.compile(r"https?://([A-Za-z0-9.-]+)")


def _must_name(body: BodyCheck, node: Node, capability: str, grants: Grants, what: str) -> None:
    """Report a right to reach nothing, unless who runs the program lends it what is left open."""
    if capability not in _NAMED or body.program.is_lent:
        return
    field, clause, word, example = _NAMED[capability]
    if getattr(grants, field):
        return
    body.lacking.add(capability)
    wanted = literal_of(node)
    if found := _OF_URL.match(wanted):
        example = found[1]
    elif wanted and capability == "process::exec":
        example = f"{wanted.split()[0]} **"
    written = f'{clause} ["{example}"]'
    body.reports.error(
        "nothing-allowed",
        node,
        f"{what} may use no {word}: {capability} allows those that `{clause}` names",
        f"add `{written}` behind the list of rights",
        None if getattr(grants, field) is not None else Edit(grants.end, grants.end, f" {written}"),
    )


def literal_of(node: Node) -> str:
    """Return the fixed text that a call begins its first argument with, or nothing."""
    match node:
        case Call(args=(Text(parts=(str() as first, *_)), *_)):
            return first
        case _:
            return ""


def check_inside(body: BodyCheck, node: Call, name: str) -> None:
    """Report a path that leaves the project, where files of programs lie."""
    path = literal_of(node)
    is_outside = path.startswith(("/", "~", "../")) and not path.startswith("/project/")
    if LIBRARY[name].capability.startswith("fs::") and is_outside:
        body.reports.error(
            "outside-project",
            node.args[0],
            f"`{path}` lies outside the project, which a program cannot reach",
            "write a path from the folder of the project, such as `docs/a.md`",
        )


def _covers(branch: str, name: str) -> bool:
    return name == branch or name.startswith(f"{branch}::")


def _grants(body: BodyCheck) -> Grants | None:
    """A function without rights of its own has those of the file; a tool has only its own."""
    header = body.names.unit.source.header
    if body.owner is None:
        return header
    own = body.owner.grants
    if isinstance(body.owner, FnDecl) and (own is None or own.capabilities is None):
        return header
    return own


def _owner(body: BodyCheck) -> str:
    match body.owner:
        case FnDecl(name=name):
            return f"the function `{name}`"
        case ToolDecl(name=name):
            return f"the tool `{name}`"
        case None:
            return "this file"


def _clause(body: BodyCheck, grants: Grants | None, capability: str) -> tuple[str, Edit | None]:
    listed = None if grants is None else grants.capabilities
    if listed:
        return f"add it to the list: `{capability}`", Edit(
            listed[-1].end, listed[-1].end, f", {capability}"
        )
    match body.owner:
        case FnDecl(body=block):
            clause = f"may [{capability}]"
        case ToolDecl(body=block):
            clause = f"capabilities [{capability}]"
        case None:
            clause = f"program may [{capability}]"
            if grants is None:
                return f"write `{clause}` at the top of the file", Edit(0, 0, f"{clause}\n\n")
            return f"write `{clause}` at the top of the file", None
    if listed is not None:
        return f"write `{clause}`", None
    return f"add `{clause}` before the body", Edit(block.at, block.at, f"{clause} ")


_SHELL = re.compile(r"(?:^|\s)(?:\|\|?|&&?|;|\d?>>?(?:&\d)?\S*|<)(?:\s|$)|\$\(|`|\d>&\d|;\s")


def check_command(body: BodyCheck, node: Call, name: str) -> None:
    """Report a command that only a shell would understand: none reads it."""
    command = literal_of(node)
    if LIBRARY[name].capability != "process::exec" or not (found := _SHELL.search(command)):
        return
    plain = command[: found.start()].strip()
    body.reports.error(
        "needs-shell",
        node.args[0],
        f"`{found[0].strip()}` is for a shell, and no shell reads a command",
        f'write `exec::run("{plain}")`, whose result has `code`, `out` and `err`',
    )
