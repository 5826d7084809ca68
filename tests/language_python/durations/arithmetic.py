from vegakit import program, vega


@program
def main() -> None:
    print(vega.text(vega.duration("1m") + vega.duration("30s")))  # expect: 90s
    print(vega.text(vega.duration("1h") - vega.duration("1m")))  # expect: 59m
    print(vega.text(vega.duration("30s") * 2))  # expect: 1m
    print(vega.text(vega.duration("1m") / 4))  # expect: 15s
    print(vega.text(vega.duration("1h") / vega.duration("30m")))  # expect: 2.0
    print(vega.text(vega.remainder(vega.duration("50s"), vega.duration("20s"))))  # expect: 10s
