from vegakit import program, vega


@program
def main() -> None:
    print(vega.text(vega.duration("100ms")))  # expect: 100ms
    print(vega.text(vega.duration("30s")))  # expect: 30s
    print(vega.text(vega.duration("5m")))  # expect: 5m
    print(vega.text(vega.duration("2h")))  # expect: 2h
    print(vega.text(vega.duration("1d")))  # expect: 1d
    print(vega.text(vega.duration("1m") == vega.duration("1m")))  # expect: true
    print(vega.text(vega.duration("90s")))  # expect: 90s
    print(vega.text(vega.duration("1500ms")))  # expect: 1500ms
