# Calls nest at most 200 deep; the program can catch that.
from vegakit import LimitReached, program


def down(n: int) -> int:
    return down(n + 1)


@program
def main() -> None:
    try:
        print(down(0))
    except LimitReached:
        print("too deep")  # expect: too deep
