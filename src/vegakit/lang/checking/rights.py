"""Whether a body may do what it does, as far as the source tells: rights are written beside it."""

from vegakit.lang.checking.context import Body
from vegakit.lang.diagnostics import Edit
from vegakit.lang.tree import FnDecl, Grants, Node, ToolDecl

__all__ = ["need"]


def need(body: Body, node: Node, capability: str, what: str) -> None:
    """Each capability that is lacking is reported once for a body."""
    grants = _grants(body)
    granted = [] if grants is None else [cap.name for cap in grants.capabilities or ()]
    if capability in body.lacking or any(_covers(name, capability) for name in granted):
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


def _covers(branch: str, name: str) -> bool:
    return name == branch or name.startswith(f"{branch}::")


def _grants(body: Body) -> Grants | None:
    """A function without rights of its own has those of the file; a tool has only its own."""
    header = body.names.unit.source.header
    if body.owner is None:
        return header
    own = body.owner.grants
    if isinstance(body.owner, FnDecl) and (own is None or own.capabilities is None):
        return header
    return own


def _owner(body: Body) -> str:
    match body.owner:
        case FnDecl(name=name):
            return f"the function `{name}`"
        case ToolDecl(name=name):
            return f"the tool `{name}`"
        case None:
            return "this file"


def _clause(body: Body, grants: Grants | None, capability: str) -> tuple[str, Edit | None]:
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
