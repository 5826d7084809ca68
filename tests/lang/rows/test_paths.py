"""Two rules that meet in a file are never told apart."""

from itertools import product

import pytest

from vegakit.lang.analysis import effects as paths
from vegakit.lang.analysis.effects import paths_touch
from vegakit.policy.capability.paths import path_fits

PARTS = ["a", "b", "ab", "*", "a*", "*b", "**"]
RULES = ["/".join(parts) for length in (1, 2, 3) for parts in product(PARTS, repeat=length)]
FILES = ["/".join(names) for n in (1, 2, 3) for names in product(["a", "b", "ab"], repeat=n)]
MATCHED = {
    rule: frozenset(file for file in FILES if path_fits(rule, file))
    for rule in RULES
    if "**/**" not in rule
}


def _wrongly_apart() -> list[tuple[str, str]]:
    some = list(MATCHED)[::3]
    return [
        (one, other)
        for one in some
        for other in MATCHED
        if MATCHED[one] & MATCHED[other] and not paths_touch(one, other)
    ]


def test_rules_that_share_a_file_touch() -> None:
    """All rules of up to three names against all files of up to three names."""
    assert not _wrongly_apart()


@pytest.mark.parametrize("fault", [lambda one, other: one == other, lambda one, other: False])
def test_a_rule_that_compares_too_strictly_is_found(
    fault: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "_names_touch", fault)
    assert _wrongly_apart()


@pytest.mark.parametrize(
    ("one", "other"),
    [("src", "src/a.py"), ("SRC/a", "src/A"), ("./src/a", "src/a"), ("a/../b", "c"), ("ﬁ", "fi")],
)
def test_folders_case_and_spelling_do_not_tell_apart(one: str, other: str) -> None:
    assert paths_touch(one, other)


@pytest.mark.parametrize(("one", "other"), [("src/**", "docs/**"), ("a.py", "b.py"), ("a*", "b*")])
def test_rules_of_other_places_do_not_touch(one: str, other: str) -> None:
    assert not paths_touch(one, other)
