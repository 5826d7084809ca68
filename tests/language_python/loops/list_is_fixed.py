# The loop walks the list as it was when the loop began.
from vegakit import program, vega


@program
def main() -> None:
    xs = [1, 2]
    for x in xs:
        xs = xs + [x * 10]
    print(vega.text(xs))  # expect: [1,2,10,20]
