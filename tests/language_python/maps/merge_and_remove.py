from vegakit import program, vega


@program
def main() -> None:
    m = {"a": 1, "b": 2}
    print(vega.text(vega.map.merge(m, {"b": 3})))  # expect: {"a":1,"b":3}
    print(vega.text(m | {"c": 4}))  # expect: {"a":1,"b":2,"c":4}
    print(vega.text(vega.map.remove(m, "a")))  # expect: {"b":2}
    print(vega.text(m))  # expect: {"a":1,"b":2}
