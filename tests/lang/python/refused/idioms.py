from enum import Enum

from vegakit import program, session


class Counter:
    n: int
    def up(self) -> int:
        return 1


class Color(Enum):
    RED = 1
    BLUE = 2


@program
def main() -> None:
    d = {"a": 1}
    xs = [3, 1]
    a = list("abc")
    b = list(d)
    d.pop("b")
    del d["a"]
    del xs[0]
    for k, v in sorted(d.items()):
        print(k, v)
    c = sorted(d)
    e = ",".join(d)
    f = [0] * 3
    g = "a".startswith(("a", "b"))
    h = sorted(["a"], key=lambda s: (len(s), s))
    i = open("x.txt").read()
    with open("x.txt") as fh:
        print("x")
    with session(budget="$1") as s:
        print("x")
    j = max(xs, default=0)
    k2 = "x" * -1
    def inner() -> int:
        return 1
    print(inner())
    print(prnt(1))
    e = ",".join("abc")
