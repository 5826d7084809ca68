"""`vega node list`, `deps` and `who-needs`: the nodes of a folder as a whole.

A node is named by its id (`pay_v2`), by its name (`pay`, the newest), or by its file. The folder is
the one that `--in` names, that of the file, or this one.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vegakit.cli.look import (
    Cell,
    Column,
    Sign,
    Tone,
    count,
    look_of,
    print_json,
    table,
    tell_error,
)
from vegakit.cli.main import Argument, add_action
from vegakit.contracts import NodeProgram, native_obstacle, show_type
from vegakit.errors import UserError
from vegakit.vesper import (
    NodeDependency,
    NodeFile,
    NodeRepository,
    capabilities_of,
    find_nodes,
    load_node,
    name_of,
)

_SUFFIX = ".vsp"


def add_repository_actions(actions: Any) -> None:  # noqa: ANN401
    """Add the actions on a folder of nodes to the command."""
    folder = Argument("--in", dest="folder", type=Path, metavar="FOLDER", help="of the nodes")
    add_action(
        actions,
        "list",
        _list,
        "list nodes with their versions",
        [Argument("places", nargs="*", type=Path, default=[Path()], metavar="FILE|FOLDER")],
    )
    add_action(
        actions,
        "deps",
        _deps,
        "show what a node depends on; lock a folder",
        [
            Argument("node", nargs="?", default="", metavar="NODE|FILE|FOLDER"),
            Argument(
                "--lock",
                action="store_true",
                help="write nodes.lock: versions and hashes as they are now",
            ),
            folder,
        ],
    )
    add_action(
        actions,
        "who-needs",
        _who_needs,
        "show which nodes need a node or a capability",
        [Argument("word", metavar="NODE|CAPABILITY"), folder],
    )


def folder_problems(
    places: Sequence[Path], nodes: Sequence[NodeFile], known: Sequence[UserError]
) -> list[UserError]:
    """Return what is wrong with the folders of nodes that were read, beside what is known: versions
    that are there twice, dependencies, a stale lock."""
    found, told = list[UserError](), {str(each) for each in known}
    for folder in _folders(places, nodes):
        for each in NodeRepository.at(folder).problems():
            if str(each) not in told:
                told.add(str(each))
                found.append(each)
    return found


def _folders(places: Sequence[Path], nodes: Sequence[NodeFile]) -> Iterator[Path]:
    """Yield the folders to look at as a whole: those that are named, and of a file that says what
    it depends on, its own."""
    files = {node.path: node for node in nodes}
    for place in places:
        if place.is_dir():
            yield place
        elif (node := files.get(str(place))) is not None and node.table.metadata.dependencies:
            yield place.parent


# Versions.


def _list(chosen: argparse.Namespace) -> int:
    rows, wrong = list[dict[str, Any]](), list[UserError]()
    for place in chosen.places:
        repository = NodeRepository.at(place)
        wrong += repository.wrong
        rows += _rows(repository, [place] if place.is_file() else None)
    if chosen.json:
        print_json({"nodes": rows, "errors": [str(error) for error in wrong]})
        return 1 if wrong else 0
    columns = (
        Column("Node"),
        Column("Versions", drop=2),
        Column("Type", drop=3),
        Column("Intent", least=20),
        Column("File", drop=1),
    )
    shown = [
        [Cell(row["node_id"]), ", ".join(row["versions"]), row["type"], row["intent"], row["path"]]
        for row in rows
        if row["newest"] or len(rows) == 1
    ]
    if shown:
        print(table(columns, shown, look_of(sys.stdout)))
    for error in wrong:
        tell_error(error)
    return 1 if wrong else 0


def _rows(repository: NodeRepository, only: list[Path] | None) -> Iterator[dict[str, Any]]:
    named = None if only is None else {str(path) for path in find_nodes(only)}
    for name, versions in repository.versions().items():
        for each in versions:
            node = repository.nodes[str(each)]
            if named is None or node.path in named:
                yield {
                    **node_summary(node.program),
                    "name": name,
                    "version": each.version,
                    "newest": each == versions[-1],
                    "versions": [f"v{one.version}" for one in versions],
                    "dependencies": node.table.metadata.dependencies,
                    "capabilities": capabilities_of(node),
                    "path": node.path,
                }


def node_summary(node: NodeProgram) -> dict[str, Any]:
    """Return what a node takes, gives and promises, for programs."""
    return {
        "node_id": node.node_id,
        "type": node.kind,
        "intent": node.intent,
        "inputs": {each.name: show_type(each.type) for each in node.inputs},
        "outputs": {name: show_type(kind) for name, kind in node.outputs},
        "errors": node.error_codes,
        "steps": [step.name for step in node.steps],
        "capabilities": node.rules.capabilities,
        "state": {each.name: each.table for each in node.states},
        "clauses": [f"{each.kind}: {each.text}" for each in (*node.before, *node.after)],
        "most_operations": node.cost,
        "not_native": native_obstacle(node),
    }


# What depends on what.


def _deps(chosen: argparse.Namespace) -> int:
    place = Path(chosen.node) if chosen.node else Path()
    is_place = not chosen.node or place.is_dir() or chosen.node.endswith(_SUFFIX)
    repository = NodeRepository.at(chosen.folder or (place if is_place else Path()))
    if place.is_dir():
        words = [str(versions[-1]) for versions in repository.versions().values()]
    else:
        words = [load_node(place).program.node_id if is_place else chosen.node]
    trees = [repository.tree(word) for word in words]
    if chosen.lock:
        _write_lock(repository, as_json=chosen.json)
    elif chosen.json:
        print_json({"nodes": [_as_json(repository, tree) for tree in trees]})
    else:
        look, seen = look_of(sys.stdout), set[str]()
        for tree in trees:
            print("\n".join(map(look.text, _drawn(tree, tree.id, repository, seen))))
    return 0


def _write_lock(repository: NodeRepository, *, as_json: bool) -> None:
    if problems := [*repository.wrong]:
        raise problems[0]
    path = repository.write_lock()
    if as_json:
        print_json({"lock": str(path), "nodes": len(repository.nodes)})
        return
    said = f"{path}: {count(len(repository.nodes), 'node')} locked"
    print("\n".join(look_of(sys.stdout).marked(Sign.DONE, Tone.OK, said)))


def _as_json(repository: NodeRepository, tree: NodeDependency) -> dict[str, Any]:
    return {
        "node_id": tree.id,
        "digest": repository.digest(tree.id),
        "dependencies": {word: each.id for word, each in tree.below.items()},
        "all": repository.in_order(tree.id)[:-1],
        "capabilities": repository.needs(tree.id),
    }


def _drawn(
    tree: NodeDependency, word: str, repository: NodeRepository, seen: set[str], margin: str = ""
) -> Iterator[str]:
    """Yield a tree in lines. One that was drawn already is only named: several may depend on it."""
    wanted = ", ".join(capabilities_of(repository.nodes[tree.id]))
    needs = f": needs {wanted}" if wanted else ""
    named = "" if word == tree.id else f" (as {word})"
    again = " (above)" if tree.below and tree.id in seen else ""
    yield f"{tree.id}{named}{needs}{again}"
    if again:
        return
    seen.add(tree.id)
    last = len(tree.below) - 1
    for number, (inner, each) in enumerate(tree.below.items()):
        branch, rest = ("└─ ", "   ") if number == last else ("├─ ", "│  ")
        first, *others = _drawn(each, inner, repository, seen)
        yield f"{margin}{branch}{first}"
        yield from (f"{margin}{rest}{line}" for line in others)


def _who_needs(chosen: argparse.Namespace) -> int:
    repository = NodeRepository.at(chosen.folder or Path())
    found = repository.who_needs(chosen.word)
    if chosen.json:
        print_json({"wanted": chosen.word, "nodes": found})
    elif not found:
        print(f"no node in {repository.folder} needs {chosen.word}")
    for each in () if chosen.json else found:
        through = f", through {' and '.join(each.through)}" if each.through else ""
        print(f"{each.id} (v{name_of(each.id).version}){through}")
    return 0
