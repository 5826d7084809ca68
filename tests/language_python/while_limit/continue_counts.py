# A round that is cut short counts.
from vegakit import LimitReached, program, vega


@program
def main() -> None:
    n = 0
    try:
        while vega.limit(3, True):
            n += 1
            continue
    except LimitReached:
        print(n)  # expect: 3
