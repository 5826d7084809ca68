"""The shape of the source tree, and that each of its rules finds a planted fault."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tools import flow, shape  # pyright: ignore[reportAttributeAccessIssue]

tree_at = cache(shape.Tree)
Rule = Callable[[shape.Tree], Iterator[str]]
BODY = '"""A subject."""\n' + "".join(f"x{n} = {n}\n" for n in range(200))

FAULTS: list[tuple[Rule, dict[str, str]]] = [
    (shape.files_are_few, {f"m{n}.py": BODY for n in range(shape.MAX_FILES + 1)}),
    (shape.code_is_short, {f"m{n}.py": "x = 1\n" * 599 for n in range(88)}),
    (shape.files_are_whole_subjects, {"a.py": "x = 1\n", "b.py": "y = 1\n"}),
    (shape.heads_are_small, {"a.py": "import os\n" * 30 + "x = 1\n" * 170}),
    (shape.modules_fit_a_reader, {"a.py": "x = 1\n" * 701}),
    (
        shape.imports_have_no_circle,
        {"a.py": "from vegakit.b import y\n", "b.py": "def f():\n    from vegakit.a import x\n"},
    ),
    (
        shape.imports_have_no_circle,
        {
            "a.py": "if TYPE_CHECKING:\n    from vegakit.p import y\n",
            "p/__init__.py": "from vegakit.p.b import y\n",
            "p/b.py": "from vegakit.a import x\ny = 1\n",
        },
    ),
    (shape.class_names_are_unique, {"a.py": "class Call: ...\n", "b.py": "class Call: ...\n"}),
    (shape.words_are_the_glossarys, {"program/a.py": "def next_letter(): ...\n"}),
    (shape.words_are_the_glossarys, {"vm/a.py": "class EarlyCall: ...\n"}),
    (shape.words_are_the_glossarys, {"cli/a.py": '"""The dearest line."""\n'}),
]


@pytest.mark.parametrize("rule", shape.RULES, ids=lambda rule: rule.__name__)
def test_our_tree_keeps_its_shape(rule: Rule) -> None:
    """The rule finds nothing in src. `code_is_short` is a goal that is not reached yet."""
    if rule is shape.code_is_short:
        pytest.skip("a goal: `just shape` prints how far it is")
    assert list(rule(tree_at(shape.SRC))) == []


@pytest.mark.parametrize(("rule", "files"), FAULTS, ids=lambda case: getattr(case, "__name__", ""))
def test_a_planted_fault_is_found(rule: Rule, files: dict[str, str], tmp_path: Path) -> None:
    """One fault, one finding at least."""
    for name, text in files.items():
        path = tmp_path / "vegakit" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert list(rule(shape.Tree(tmp_path / "vegakit")))


def test_a_row_of_a_table_is_no_row_of_effects(tmp_path: Path) -> None:
    """A word counts only in the sense that the glossary replaces."""
    path = tmp_path / "vegakit" / "store" / "a.py"
    path.parent.mkdir(parents=True)
    path.write_text("def read_row(mailbox): ...\n", encoding="utf-8")
    assert list(shape.words_are_the_glossarys(shape.Tree(tmp_path / "vegakit"))) == []


@pytest.mark.parametrize("name", flow.FLOWS)
def test_a_flow_enters_few_files(name: str) -> None:
    """What a newcomer has to read to follow one call."""
    assert len(flow.entered(name)) <= flow.FLOWS[name].limit


def test_a_journal_does_not_change_the_way_of_an_ask() -> None:
    """Only the ledger differs: in memory, with its rules in `policy`, or on a file beside it."""
    plain, kept = set(flow.entered("ask")), set(flow.entered("ask with a journal"))
    assert plain - kept <= {"store/memory/__init__.py", "policy/budget.py", "policy/scopes.py"}
    assert {name.split("/")[0] for name in kept - plain} <= {"store"}
