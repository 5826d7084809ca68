# In the order they came.
from vegakit import program, vega


@program
def main() -> None:
    m = {"b": 1, "a": 2}
    print(vega.text(list(m.keys())))  # expect: ["b","a"]
    print(vega.text(list(m.values())))  # expect: [1,2]
    print(vega.map.len(m))  # expect: 2
