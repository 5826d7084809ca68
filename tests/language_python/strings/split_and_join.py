from vegakit import program, vega


@program
def main() -> None:
    print(vega.text("a,b,,c".split(",")))  # expect: ["a","b","","c"]
    print(vega.text(vega.str.split("abc", "")))  # expect: ["a","b","c"]
    print("+".join(["x", "y"]))  # expect: x+y
    print(vega.text(vega.str.lines("a\nb\n")))  # expect: ["a","b"]
    print(vega.text("  two  words ".split()))  # expect: ["two","words"]
