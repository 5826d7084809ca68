from vegakit import program, vega


@program
def main() -> None:
    before = vega.time.now()
    vega.process.sleep("1d")
    after = vega.time.now()
    print(vega.text(before < after))  # expect: true
    print(vega.text(before[10:] == after[10:]))  # expect: true
