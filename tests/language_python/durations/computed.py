# A sleep takes a computed duration.
from vegakit import program, vega


@program
def main() -> None:
    wait = vega.duration("2s") * 3
    vega.process.sleep(wait)
    print(vega.text(wait))  # expect: 6s


# expect time: 6s
