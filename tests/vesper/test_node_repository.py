"""A folder of nodes: versions, dependencies, the lock, and who needs what."""

from pathlib import Path

import pytest
from msgspec import structs

from vegakit.errors import UserError
from vegakit.vesper import NodeFile, NodeRepository, compiler_version, name_of, parse_node
from vegakit.vesper.node_tables import SecurityTable
from vegakit.vesper.repository import LOCK_NAME, NodeLock

NODE = """\
node_id: {id}
type: rule
intent: Add {more}.
metadata: {{dependencies: [{needs}]}}
inputs:
  count: {{type: integer, constraints: [count >= 0, count <= 1000]}}
outputs:
  success: {{sum: integer}}
flow:
  - step: sum
    operation: compute
    parameters: {{value: count + {more}}}
"""


def write(folder: Path, node_id: str, *needs: str, more: int = 1) -> None:
    text = NODE.format(id=node_id, needs=", ".join(needs), more=more)
    (folder / f"{node_id}.vsp").write_text(text)


def told(folder: Path) -> list[str]:
    return [str(each).replace(f"{folder}/", "") for each in NodeRepository.at(folder).problems()]


def test_a_name_is_the_newest_version(tmp_path: Path) -> None:
    """Versions are numbers: ten is newer than nine."""
    for number in (1, 10, 9):
        write(tmp_path, f"fee_v{number}")
    found = NodeRepository.at(tmp_path)
    assert found.find("fee").program.node_id == "fee_v10"
    assert found.find("fee_v9").program.node_id == "fee_v9"
    assert [each.version for each in found.versions()["fee"]] == [1, 9, 10]


def test_a_node_that_is_not_there_is_told_with_what_is_near(tmp_path: Path) -> None:
    """Nobody has to look for the spelling."""
    write(tmp_path, "fee_v1")
    with pytest.raises(UserError, match=r"no node 'fees_v1' .*fee_v1.*vega node list"):
        NodeRepository.at(tmp_path).find("fees_v1")


def test_dependencies_come_before_who_needs_them(tmp_path: Path) -> None:
    """Each once, also where two need the same."""
    write(tmp_path, "price_v1", "tax_v1", "fee")
    write(tmp_path, "tax_v1", "rate_v1")
    write(tmp_path, "fee_v1", "rate_v1")
    write(tmp_path, "rate_v1")
    found = NodeRepository.at(tmp_path)
    assert found.in_order("price") == ["rate_v1", "tax_v1", "fee_v1", "price_v1"]
    assert [*found.tree("price").below] == ["tax_v1", "fee"]
    assert found.problems() == []


CALLING = """\
node_id: calling_v1
type: rule
intent: Ask another node.
inputs: {count: {type: integer, constraints: [count >= 0, count <= 1000]}}
outputs: {success: {sum: integer}}
flow:
  - {step: asked, operation: call, parameters: {node: add_v1, inputs: "{count: count}"}}
  - {step: sum, operation: compute, parameters: {value: asked.sum}}
"""


def test_a_node_that_is_called_is_a_dependency(tmp_path: Path) -> None:
    """So what is known of the caller changes with it, though nobody wrote it down."""
    write(tmp_path, "add_v1")
    (tmp_path / "calling_v1.vsp").write_text(CALLING)
    before = NodeRepository.at(tmp_path).digest("calling_v1")
    write(tmp_path, "add_v1", more=2)
    assert NodeRepository.at(tmp_path).digest("calling_v1") != before


def test_many_ways_to_one_node_are_not_walked_one_by_one(tmp_path: Path) -> None:
    """Forty diamonds in a row have a million million ways."""
    write(tmp_path, "n0_v1")
    for number in range(1, 41):
        write(tmp_path, f"l{number}_v1", f"n{number - 1}_v1")
        write(tmp_path, f"r{number}_v1", f"n{number - 1}_v1")
        write(tmp_path, f"n{number}_v1", f"l{number}_v1", f"r{number}_v1")
    found = NodeRepository.at(tmp_path)
    assert len(found.in_order("n40")) == 121
    assert len(found.who_needs("n0")) == 120


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ({"a_v1": ("b",), "b_v1": ("c",), "c_v1": ("a",)}, "a_v1 -> b_v1 -> c_v1 -> a_v1"),
        ({"a_v1": ("a",)}, "a_v1 -> a_v1"),
        ({"a_v1": ("b_v2",), "b_v1": ()}, "a_v1.vsp:4: a_v1 depends on 'b_v2', which is not in"),
    ],
)
def test_a_circle_and_a_gap_are_told(
    tmp_path: Path, nodes: dict[str, tuple[str, ...]], reason: str
) -> None:
    """With the file that has them."""
    for node_id, needs in nodes.items():
        write(tmp_path, node_id, *needs)
    assert any(reason in each for each in told(tmp_path))


def test_one_version_twice_is_told(tmp_path: Path) -> None:
    """Both files are named."""
    write(tmp_path, "fee_v1")
    (tmp_path / "other.vsp").write_text((tmp_path / "fee_v1.vsp").read_text())
    assert told(tmp_path) == [
        "other.vsp and fee_v1.vsp are both fee_v1; give one of them another version"
    ]


def replace_compiler(folder: Path) -> None:
    path = folder / LOCK_NAME
    path.write_text(path.read_text().replace(compiler_version(), "0" * 16))


def locked(folder: Path) -> NodeRepository:
    write(folder, "price_v1", "fee")
    write(folder, "fee_v1")
    NodeRepository.at(folder).write_lock()
    return NodeRepository.at(folder)


def test_a_lock_keeps_versions_until_it_is_written_again(tmp_path: Path) -> None:
    """A newer version is told, and not taken."""
    assert locked(tmp_path).problems() == []
    write(tmp_path, "fee_v2")
    found = NodeRepository.at(tmp_path)
    assert found.direct("price_v1") == {"fee": "fee_v1"}
    assert [str(each).partition("; ")[0] for each in found.problems()] == [
        f"{found.lock_path} is stale: fee_v2 is new"
    ]
    found.write_lock()
    assert NodeRepository.at(tmp_path).direct("price_v1") == {"fee": "fee_v2"}
    assert NodeRepository.at(tmp_path).problems() == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda folder: write(folder, "fee_v1", more=2), "fee_v1 has changed"),
        (lambda folder: (folder / "fee_v1.vsp").unlink(), "depends on 'fee'"),
        (lambda folder: write(folder, "other_v1"), "other_v1 is new"),
        (replace_compiler, "the compiler has changed"),
    ],
)
def test_a_lock_is_stale_when_something_has_changed(
    tmp_path: Path, change: object, reason: str
) -> None:
    """A node, a dependency, the compiler."""
    locked(tmp_path)
    assert callable(change)
    change(tmp_path)
    assert any(reason in each for each in told(tmp_path))


def test_comments_make_no_lock_stale(tmp_path: Path) -> None:
    """What a file says is hashed, and not how."""
    locked(tmp_path)
    path = tmp_path / "fee_v1.vsp"
    path.write_text(f"# Of the bank.\n{path.read_text()}")
    assert told(tmp_path) == []


def test_a_digest_covers_what_a_node_depends_on(tmp_path: Path) -> None:
    """It changes with a dependency of a dependency, and not with a neighbour."""
    write(tmp_path, "price_v1", "fee")
    write(tmp_path, "fee_v1", "rate_v1")
    write(tmp_path, "rate_v1")
    before = NodeRepository.at(tmp_path).digest("price_v1")
    write(tmp_path, "other_v1")
    assert NodeRepository.at(tmp_path).digest("price_v1") == before
    write(tmp_path, "rate_v1", more=2)
    assert NodeRepository.at(tmp_path).digest("price_v1") != before


def test_a_lock_of_another_format_is_refused(tmp_path: Path) -> None:
    """It says how to write one."""
    (tmp_path / LOCK_NAME).write_text('{"compiler": "", "nodes": [], "format": 9}')
    with pytest.raises(UserError, match="format is 9; write it again, type: vega node deps --lock"):
        NodeRepository(tmp_path, [])
    assert NodeLock("", ()).format == 1


def needing(node_id: str, *capabilities: str, needs: str = "") -> NodeFile:
    node = parse_node(NODE.format(id=node_id, needs=needs, more=1).encode(), f"{node_id}.vsp")
    security = SecurityTable(capabilities_required=capabilities)
    return structs.replace(node, table=structs.replace(node.table, security=security))


def test_who_needs_a_capability_or_a_node(tmp_path: Path) -> None:
    """A capability stands for those below it; nodes between are told."""
    nodes = [
        needing("a_v1", "database.write.orders"),
        needing("b_v1", "database.writer"),
        needing("c_v1", needs="a_v1"),
        needing("d_v1", needs="c_v1"),
    ]
    found = NodeRepository(tmp_path, nodes)
    by_capability = {each.id: each.through for each in found.who_needs("database.write")}
    assert by_capability == {"a_v1": (), "c_v1": (), "d_v1": ("c_v1",)}
    assert {each.id: each.through for each in found.who_needs("a_v1")} == {
        "c_v1": (),
        "d_v1": ("c_v1",),
    }
    assert found.needs("d_v1") == {"database.write.orders": ("a_v1",)}
    with pytest.raises(UserError, match="neither a node"):
        found.who_needs("database.read")


def test_an_id_has_a_version() -> None:
    """Names of more than one word, too."""
    assert str(name_of("late_fee_v12")) == "late_fee_v12"
    assert name_of("late_fee_v12").version == 12
    with pytest.raises(UserError, match="pay_v1"):
        name_of("late_fee")
