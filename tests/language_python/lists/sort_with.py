from vegakit import program, vega


@program
def main() -> None:
    words = ["pear", "fig", "plum", "apple"]
    short = sorted(words, key=lambda w: len(w))
    print(vega.text(short))  # expect: ["fig","pear","plum","apple"]
    far = sorted(words, key=lambda w: abs(4 - len(w)), reverse=True)
    print(vega.text(far))  # expect: ["fig","apple","pear","plum"]
    try:
        print(vega.text(vega.list.sort_with(words, [1])))
    except ValueError as reason:
        print(vega.reason(reason))  # expect: there are 1 keys for 4 items
