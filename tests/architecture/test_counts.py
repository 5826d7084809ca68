"""Counts that may only fall, and that each of them sees what it counts."""

import ast
from functools import cache

import pytest

from tools import counts, inner_imports  # pyright: ignore[reportAttributeAccessIssue]

CLASS = "class A:\n  def __init__(self):\n    self.x = 1\n  def run(self):\n    self.{} = 2\n"
SEEN = {
    "statements": ("x = 1\n", ""),
    "late_attributes": (CLASS.format("y"), CLASS.format("x")),
    "long_calls": ("f(1, 2, 3, 4, 5, 6, 7)\n", "f(1, 2, 3, 4, 5, 6, g=7)\n"),
    "parallel_assignments": ("a, b = 1, 2\n", "a, b = b, a\n"),
    "odd_names": ("told = 1\n", "reply = 1\n"),
    "imports_for_effects": (
        "from vegakit.a import RULES\nRULES.update({})\n",
        "RULES = {}\nRULES.update({})\n",
    ),
    "phrases_in_code": ('"""What is told goes on."""\n', '"""Return the reply."""\n'),
}


@cache
def trees() -> dict[str, ast.Module]:
    """Parse the sources in the worker that runs these tests, and in no other."""
    return counts.trees_of(counts.ROOT / "src" / "vegakit")


@pytest.mark.parametrize("name", counts.COUNTS)
def test_a_count_does_not_rise(name: str) -> None:
    """`just counts --places` shows where; `just counts --write` lowers the limits."""
    assert len(list(counts.COUNTS[name](trees()))) <= counts.limits()[name]


@pytest.mark.parametrize("name", SEEN)
def test_a_count_sees_what_it_counts(name: str) -> None:
    bad, good = ({"a.py": ast.parse(text)} for text in SEEN[name])
    assert len(list(counts.COUNTS[name](bad))) > len(list(counts.COUNTS[name](good)))


def test_every_count_has_a_limit() -> None:
    assert counts.limits().keys() == counts.COUNTS.keys()


PACKAGE = {
    "policy/__init__.py": "if TYPE_CHECKING:\n    from vegakit.policy.rate import Rate as Rate\n",
    "policy/rate.py": "class Rate: ...\nclass _Row: ...\n",
    "policy/other.py": "class Rate: ...\n",
}


@pytest.mark.parametrize(
    ("path", "text", "allowed"),
    [
        ("tests/vm/test_a.py", "from vegakit.policy import Rate\n", True),
        ("tests/vm/test_a.py", "from vegakit.policy.rate import Rate\n", False),
        (
            "tests/vm/test_a.py",
            "def f():\n    from vegakit.policy.rate import (\n  Rate,\n)\n",
            False,
        ),
        ("tests/vm/test_a.py", "import vegakit.policy.rate as rate\n", False),
        ("tests/vm/test_a.py", "from vegakit.policy import rate\n", False),
        ("tests/vm/test_a.py", "PROGRAM = '''\nfrom vegakit.policy.rate import Rate\n'''\n", False),
        ("tests/policy/test_a.py", "from vegakit.policy.rate import Rate\n", False),
        ("tests/policy/test_a.py", "from vegakit.policy.rate import _Row\n", True),
        ("tests/policy/test_a.py", "from vegakit.policy.other import Rate\n", True),
        ("tests/vm/test_a_faults.py", "from vegakit.policy.rate import _Row\n", True),
        ("benchmarks/a.py", "from vegakit.policy.rate import _Row\n", False),
        ("tests/tools/test_a.py", "from vegakit.policy import rate\n", True),
    ],
)
def test_a_test_imports_what_a_package_exports_from_the_package(
    path: str, text: str, allowed: bool
) -> None:
    """Only its own tests, planted faults and files with a reason reach below it for the rest."""
    trees = {name: ast.parse(source) for name, source in PACKAGE.items()}
    assert bool([*inner_imports.forbidden_imports({path: text}, trees)]) is not allowed


def test_every_reason_to_reach_below_a_package_is_needed() -> None:
    assert inner_imports.idle_reasons(inner_imports.outside_texts(), trees()) == set()
