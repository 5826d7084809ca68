from vegakit import program, vega


@program
def main() -> None:
    ages = {"Ada": 36}
    print(ages.get("Ada", 0))  # expect: 36
    print(ages.get("Bob", 0))  # expect: 0
    print(vega.text(vega.map.has(ages, "Ada")))  # expect: true
    print(vega.text("Bob" in ages))  # expect: false
