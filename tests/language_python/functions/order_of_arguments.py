# Arguments are worked out from left to right.
from vegakit import program


def say(n: int) -> int:
    print(n)
    return n


def take(a: int, b: int) -> int:
    return a - b


@program
def main() -> None:
    print(take(say(5), say(3)))


# expect: 5
# expect: 3
# expect: 2
