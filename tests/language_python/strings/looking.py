from vegakit import program, vega


@program
def main() -> None:
    print(vega.text("vega".startswith("ve")))  # expect: true
    print(vega.text("vega".endswith("ve")))  # expect: false
    print(vega.text(vega.str.contains("vega", "eg")))  # expect: true
    print(vega.default(vega.str.find("vega", "ga"), -1))  # expect: 2
    print(vega.default(vega.str.find("vega", "x"), -1))  # expect: -1
    print(vega.str.count("banana", "an"))  # expect: 2
