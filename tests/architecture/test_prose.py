"""The report of our English: it sees sentences only, and ranks a dialect above plain English."""

from pathlib import Path

import pytest

from tools import prose, suites  # pyright: ignore[reportAttributeAccessIssue]

PLAIN = """
You can set a budget for each agent. The budget blocks a call before it is sent, so an agent cannot
spend more than you allow. If a call is interrupted, Vega charges the maximum for it. To resume the
run, use the same command again, and the answers in the journal will be used.
"""
DIALECT = """
What an agent is told to spend stands beside it, and nobody who asks goes on when nothing is left of
it. What was begun and never heard of counts with the most that it could have come to. Whoever goes
on with the run is told what was told before, of which nothing is asked anew.
"""
PAGE = """---
title: what whatever
---
# What nobody told

![what](what.png) See [the page](https://example.org/what) and `what is told`.

```python
what = "told"
```

| what | told |
|---|---|
"""
MODULE = '''"""Subject of the module."""

import os  # noqa: F401

LIMIT = 3  # calls a second
"""Reason for the limit."""


def what(told: str = "what") -> str:
    """Return the text."""
    return told
'''


def test_a_dialect_scores_higher_than_plain_english() -> None:
    usage_of = prose.usages(1)
    plain, dialect = (prose.score("", text * 20, usage_of) for text in (PLAIN, DIALECT))
    assert plain.words == pytest.approx(dialect.words, rel=0.2)
    assert dialect.rank > 1.3 * plain.rank
    assert max(dialect.distances, key=lambda word: dialect.distances[word]) not in PLAIN.split()


def test_only_the_sentences_of_a_page_count() -> None:
    assert prose.prose_of_page(PAGE).split() == ["See", "the", "page", "and", "X."]


def test_only_the_docstrings_and_comments_of_a_module_count() -> None:
    lines = ["Subject of the module.", "Reason for the limit.", "Return the text."]
    assert set(prose.prose_of_module(MODULE).splitlines()) == {*lines, "calls a second"}


def test_a_longer_text_is_held_to_a_lower_score() -> None:
    usual = [prose.usual_score(words) for words in (100, 500, 700, 1_000, 3_000, 10_000, 50_000)]
    assert usual == sorted(usual, reverse=True)
    assert [usual[place] for place in (0, 1, 3, 6)] == [2.5, 2.5, 2.2, 1.2]


def test_the_report_names_the_worst_texts_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    texts = {"plain.md": PLAIN * 20, "dialect.md": DIALECT * 20, "short.md": DIALECT}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    lines = prose.report("pages", prose.pages()).splitlines()
    assert [line.split()[-1] for line in lines[2:]] == ["dialect.md", "plain.md"]
    assert lines[1].endswith("all 3 pages")


def test_the_night_prints_the_report_and_nothing_else_does() -> None:
    """It is no gate: neither a commit nor CI depends on it."""
    assert [name for name, group in suites.GROUPS.items() if "prose" in group] == ["nightly"]
