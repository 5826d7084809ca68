from vegakit import program, vega


@program
def main() -> None:
    votes: dict[str, int] = {}
    by_length: dict[str, list[str]] = {}
    for word in ["tea", "milk", "tea"]:
        votes[word] = vega.default(vega.map.get(votes, word), 0) + 1
        size = f"{len(word)}"
        by_length[size] = by_length.get(size, []) + [word]
    print(vega.text(votes))  # expect: {"tea":2,"milk":1}
    print(vega.text(by_length))  # expect: {"3":["tea","tea"],"4":["milk"]}
