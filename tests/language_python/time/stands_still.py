# Without waiting no time passes.
from vegakit import program, vega


@program
def main() -> None:
    before = vega.time.now()
    n = 0
    while n < 100:
        n += 1
    print(vega.text(vega.time.now() == before))  # expect: true
