"""Measures how far our English is from well-known technical documentation.

    python tools/prose.py            the ten worst pages and the ten worst modules
    python tools/prose.py FILE …     the score of each file, and the words that raise it

The score is Burrows's delta: for each of 200 function words, the distance between its frequency
here and its mean frequency elsewhere (tools/prose.txt), in standard deviations; the score is the
mean distance. Short texts score higher by chance, so the rank of a text is its score divided by the
score of an excerpt of the same length from those other documents. Their English ranks at about 1.0.

This is a report. It fails nothing: a low score does not make a page good.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from itertools import pairwise
from math import log
from pathlib import Path
from statistics import mean
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LEAST_DEVIATION = 0.15
"""A word that hardly varies elsewhere would outweigh all others."""
MOST_DEVIATIONS = 20.0
LEAST_WORDS = 200
"""Shorter texts are not ranked: their score is chance."""
WORST = 10
SHOWN_WORDS = 12
USUAL_SCORES = ((500, 2.5), (1_000, 2.2), (2_000, 1.7), (5_000, 1.4), (10_000, 1.2))
"""Mean scores of excerpts of the other documents, by their length in words."""

_FENCES = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_NO_PROSE = re.compile(r"\s*(\||#|<|:::|!!!|import |export )")
_PRAGMA = re.compile(r"#\s*(type:|noqa|pragma|pyright)")


class Usage(NamedTuple):
    """The frequency of a word in 1,000 words of other documents, and its deviation."""

    mean: float
    deviation: float

    def distance(self, frequency: float) -> float:
        distance = (frequency - self.mean) / max(self.deviation, LEAST_DEVIATION)
        return max(-MOST_DEVIATIONS, min(distance, MOST_DEVIATIONS))


class Score(NamedTuple):
    """The score of a text. `distances` are signed, by word."""

    name: str
    words: int
    delta: float
    distances: dict[str, float]

    @property
    def rank(self) -> float:
        """Return the score over that of other documents of this length."""
        return self.delta / usual_score(self.words)

    def __str__(self) -> str:
        return f"{self.rank:5.2f} {self.delta:6.2f} {self.words:8,}  {self.name}"


def usages(column: int) -> dict[str, Usage]:
    """Read the usage of each word in pages (column 1) or in code (column 3)."""
    lines = Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {row[0]: Usage(float(row[column]), float(row[column + 1])) for row in rows}


def usual_score(words: int) -> float:
    """Return the mean score of an excerpt of other documents. The score falls with the logarithm of
    the length."""
    if words <= USUAL_SCORES[0][0]:
        return USUAL_SCORES[0][1]
    for (shorter, high), (longer, low) in pairwise(USUAL_SCORES):
        if words <= longer:
            return high + (low - high) * log(words / shorter) / log(longer / shorter)
    return USUAL_SCORES[-1][1]


def prose_of_page(text: str) -> str:
    """Return the sentences of a Markdown page: no code, tables, headings or addresses."""
    text = _FENCES.sub(" ", re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL))
    return _plain("\n".join(line for line in text.splitlines() if not _NO_PROSE.match(line)))


def prose_of_module(text: str) -> str:
    """Return the docstrings and comments of a module."""
    strings = [
        node.value.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    comments = [
        token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and not _PRAGMA.match(token.string)
    ]
    return _plain("\n".join([*strings, *comments]))


def _plain(text: str) -> str:
    """Remove markup. A piece of code in a sentence counts as one word."""
    text = re.sub(r"`[^`]*`", "X", text)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"https?://\S+|[*_>]", "", text)


def score(name: str, prose: str, usage_of: dict[str, Usage]) -> Score:
    """Compare the frequencies of function words with their usage."""
    words = re.findall(r"[a-z']+", prose.lower())
    counts = Counter(words)
    per_thousand = 1_000 / max(len(words), 1)
    distances = {
        word: usage.distance(counts[word] * per_thousand) for word, usage in usage_of.items()
    }
    return Score(name, len(words), mean(map(abs, distances.values())), distances)


def prose_of(path: Path) -> str:
    """Return what a page or a module says in sentences."""
    text = path.read_text("utf-8")
    return prose_of_module(text) if path.suffix == ".py" else prose_of_page(text)


def usages_for(path: Path) -> dict[str, Usage]:
    return usages(3 if path.suffix == ".py" else 1)


def pages() -> list[Path]:
    """Return our pages; the change log is a list."""
    paths = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    return [path for path in paths if path.name != "CHANGELOG.md"]


def modules() -> list[Path]:
    """Return our modules; generated code has no prose."""
    return [path for path in sorted((ROOT / "src").rglob("*.py")) if "_pb2" not in path.name]


def report(title: str, paths: list[Path]) -> str:
    """Return the score of all texts together, and the worst of them."""
    usage_of = usages_for(paths[0])
    texts = {path.relative_to(ROOT).as_posix(): prose_of(path) for path in paths}
    scores = [score(name, prose, usage_of) for name, prose in texts.items()]
    ranked = [text for text in scores if text.words >= LEAST_WORDS]
    worst = sorted(ranked, key=lambda text: text.rank, reverse=True)[:WORST]
    all_texts = score(f"all {len(texts)} {title}", "\n".join(texts.values()), usage_of)
    return "\n".join([" rank  score    words", *map(str, [all_texts, *worst])])


def main(*names: str) -> int:
    for path in map(Path, names):
        text = score(str(path), prose_of(path), usages_for(path))
        odd = sorted(text.distances.items(), key=lambda row: -abs(row[1]))[:SHOWN_WORDS]
        print(text)
        print("     ", ", ".join(f"{word} {distance:+.0f}" for word, distance in odd))
    if not names:
        print(report("pages", pages()), report("modules", modules()), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
