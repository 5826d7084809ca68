from vegakit import program, vega


@program
def main() -> None:
    print(vega.text(vega.time.seconds("1500ms")))  # expect: 1.5
    print(vega.text(vega.time.of_seconds(2.5)))  # expect: 2500ms
    print(vega.text(float(vega.duration("3s"))))  # expect: 3.0
    try:
        print(vega.text(vega.time.of_seconds(-1.0)))
    except ValueError:
        print("not negative")  # expect: not negative
