from collections import defaultdict
from vegakit import program


@program
def main(words: list[str]) -> int:
    counts = defaultdict(int)
    for w in words:
        counts[w] += 1
    return len(counts)
