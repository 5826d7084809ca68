# No string grows beyond ten million characters.
from vegakit import LimitReached, program, vega


@program
def main() -> None:
    try:
        print(len(vega.str.repeat("ab", 5000001)))
    except LimitReached:
        print("too long")  # expect: too long
    print(vega.str.repeat("x", -1))  # error: ValueError
