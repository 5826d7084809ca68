from vegakit import LimitReached, program, vega


@program
def main() -> None:
    n = 0
    try:
        while vega.limit(4, True):
            n += 1
    except LimitReached:
        print(f"stopped after {n}")  # expect: stopped after 4
