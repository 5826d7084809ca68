# The count begins again each time the loop is entered.
from vegakit import program, vega


@program
def main() -> None:
    total = 0
    for i in range(3):
        n = 0
        while vega.limit(2, n < 2):
            n += 1
            total += 1
    print(total)  # expect: 6
