# A time in UTC, twenty characters.
from vegakit import program, vega


@program
def main() -> None:
    now = vega.time.now()
    print(len(now))  # expect: 20
    print(vega.text(now.endswith("Z")))  # expect: true
