"""The pages as one text: links lead to a page and a heading, the first questions are near the
README, the glossary is used, and words that it replaces are not.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tools import shape  # pyright: ignore[reportAttributeAccessIssue]
from vegakit.cli import COMMANDS
from vegakit.config import load
from vegakit.errors import SettingsError

REPOSITORY = Path(__file__).parents[2]
README = REPOSITORY / "README.md"
QUESTIONS = REPOSITORY / "docs/questions.md"
GLOSSARY = REPOSITORY / "docs/reference/glossary.md"
PAGES = sorted(
    [
        *REPOSITORY.glob("*.md"),
        *REPOSITORY.glob("docs/**/*.md"),
        REPOSITORY / "examples/README.md",
    ]
)
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
ENTRY = re.compile(r"^\| (\*\*.+?\*\*) \| (.+) \|$", re.MULTILINE)
QUESTION = re.compile(r"^## ([^\n]+\?)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
SETTINGS = re.compile(r"^```toml(?: \S*vega\.toml)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
TYPED = re.compile(r"(?:^\$ |^|(?<!`)`)vega ([a-z]+)\b", re.MULTILINE)
MOST_ENTRIES = 60
ANSWERED_WITHIN = 2
"""Clicks from the README."""
REPLACED = {
    **shape.PHRASES,
    r"\bdear\b": "expensive",
    r"\bscouts?\b": "lookahead",
    r"\bstrands?\b": "task",
    r"\bcharter\b": "server policy",
    r"\bmillion words\b": "million tokens",
    r"\bunder way\b": "in flight",
}
HISTORY = ("docs/decisions", "docs/benchmarks.md", "CHANGELOG.md")
"""What was written down of a day keeps the words of that day."""


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    times: Counter[str] = Counter()
    found: set[str] = set()
    for heading in HEADING.findall(FENCED.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(f"{slug}-{times[slug]}" if times[slug] else slug)
        times[slug] += 1
    return found


def links_of(page: Path, text: str) -> Iterator[tuple[Path, str]]:
    """Yield the file and the anchor of each link."""
    for place, anchor in LINK.findall(FENCED.sub("", text)):
        yield (page.parent / place).resolve() if place else page, anchor


def broken_links(page: Path, text: str) -> list[str]:
    """Return links to a file that is not there, or to a heading that its page does not have."""
    return [
        f"{target}#{anchor}"
        for target, anchor in links_of(page, text)
        if not target.exists()
        or (anchor and anchor not in anchors(text if target == page else TEXTS[target]))
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_a_page_and_a_heading(page: Path) -> None:
    assert broken_links(page, TEXTS[page]) == []


def test_a_broken_link_is_found() -> None:
    wrong = "[a](docs/nowhere.md) [b](docs/questions.md#nothing) [c](#neither)\n# Here"
    assert len(broken_links(README, wrong)) == 3
    assert (
        broken_links(
            README, "[a](docs/questions.md#what-is-it) [b](#here-and-now)\n# Here, and now!"
        )
        == []
    )


# Ten questions, each answered near the README.


def clicks_from(start: Path, texts: dict[Path, str]) -> dict[Path, int]:
    """Return how many links lie between a page and each page that can be reached from it."""
    clicks, edge = {start: 0}, [start]
    while edge:
        here = edge.pop(0)
        for target, _ in links_of(here, texts.get(here, "")):
            if target not in clicks:
                clicks[target] = clicks[here] + 1
                edge.append(target)
    return clicks


def far_answers(questions: str, texts: dict[Path, str]) -> list[str]:
    """Return the questions that have no link, or one that is further from the README."""
    clicks = clicks_from(README, texts)
    return [
        question
        for question, answer in QUESTION.findall(questions)
        if not (targets := [target for target, _ in links_of(QUESTIONS, answer)])
        or any(clicks.get(target, 99) > ANSWERED_WITHIN for target in targets)
    ]


def test_ten_questions_are_answered_within_two_clicks_of_the_readme() -> None:
    assert len(QUESTION.findall(TEXTS[QUESTIONS])) == 10
    assert far_answers(TEXTS[QUESTIONS], TEXTS) == []


def test_an_answer_that_is_too_far_or_missing_is_found() -> None:
    asked = "## How?\nNo link.\n## Where?\n[There](how-to/test-an-agent.md).\n"
    assert far_answers(asked, TEXTS) == ["How?"]
    without = {README: "[docs](docs/README.md)", REPOSITORY / "docs/README.md": "[a](questions.md)"}
    assert far_answers(asked, without) == ["How?", "Where?"]


def test_every_page_can_be_found_from_the_readme() -> None:
    clicks = clicks_from(README, TEXTS)
    assert [name_of(page) for page in PAGES if page not in clicks] == []


# The glossary, and the words that it replaces.


def terms(glossary: str) -> list[str]:
    return [term for entry, _ in ENTRY.findall(glossary) for term in re.findall(r"\w[\w ]*", entry)]


def unused(words: Iterable[str], texts: Iterable[str]) -> list[str]:
    """Return the words that stand nowhere, also not in the plural."""
    said = " ".join(" ".join(texts).lower().split())
    return [word for word in words if not re.search(rf"\b{word}s?\b|\b{word[:-1]}ies\b", said)]


def test_every_word_of_the_glossary_is_used_in_the_pages() -> None:
    words = terms(TEXTS[GLOSSARY])
    assert 30 <= len(words) <= MOST_ENTRIES
    assert len(set(words)) == len(words)
    assert unused([*words, "purse"], [TEXTS[page] for page in PAGES if page != GLOSSARY]) == [
        "purse"
    ]


def test_an_entry_is_a_sentence_or_two() -> None:
    for term, meaning in ENTRY.findall(TEXTS[GLOSSARY]):
        plain = re.sub(r"`[^`]*`|\[[^\]]*\]\([^)]*\)", "x", meaning)
        assert 1 <= len(re.findall(r"[.!?](?: |$)", plain)) <= 2, term


def test_the_glossary_and_the_questions_are_linked_from_the_readme_and_from_the_docs() -> None:
    for page in (README, REPOSITORY / "docs/README.md"):
        assert {GLOSSARY, QUESTIONS} <= {target for target, _ in links_of(page, TEXTS[page])}


def replaced_words(text: str) -> list[str]:
    return [
        f"{found[0]}: say {instead}"
        for word, instead in REPLACED.items()
        for found in re.finditer(word, text, re.IGNORECASE)
    ]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if not name_of(page).startswith(HISTORY)], ids=name_of
)
def test_no_page_uses_a_word_that_was_replaced(page: Path) -> None:
    assert replaced_words(TEXTS[page]) == []


def test_a_word_that_was_replaced_is_found() -> None:
    assert replaced_words("It is dear.\nA scout costs $1 a million words.") == [
        "dear: say expensive",
        "scout: say lookahead",
        "million words: say million tokens",
    ]


# Settings and commands in the pages are those that there are.


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=f"{name_of(page)}-{number}")
        for page in PAGES
        for number, block in enumerate(SETTINGS.findall(TEXTS[page]))
    ],
)
def test_settings_in_a_page_are_settings(block: str) -> None:
    load(_flat(tomllib.loads(block)))


def test_a_setting_that_there_is_not_is_found() -> None:
    with pytest.raises(SettingsError, match=r"no setting budget\.defualt"):
        load(_flat(tomllib.loads('[budget]\ndefualt = "$1"\n')))


def _flat(table: dict[str, object], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in table.items():
        name = f"{prefix}{_quoted(key)}"
        if isinstance(value, dict):
            found |= _flat(value, f"{name}.")  # pyright: ignore[reportUnknownArgumentType]
        else:
            found[name] = value
    return found


def _quoted(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else f'"{key}"'


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "add-a-command.md"], ids=name_of
)
def test_commands_in_a_page_are_commands(page: Path) -> None:
    assert {word for word in TYPED.findall(TEXTS[page]) if word not in COMMANDS} == set()


def test_the_readme_is_short_and_begins_with_python() -> None:
    assert len(TEXTS[README].split()) <= 800
    assert "```python" in TEXTS[README].splitlines()[:25]
