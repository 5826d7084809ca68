from dataclasses import dataclass

from vegakit import program, vega


@dataclass
class Part:
    share: float


def half(x: float) -> float:
    n = 3
    n += 1.5
    most = max(1, x)
    print(vega.math.sqrt(n), most)
    return n * 2


@program
def main() -> None:
    xs = [2.5, 1 + 1]
    ys = [2.5]
    ys.append(2 - 1)
    share: float | None = 7 // 2
    part = Part(3 * 2)
    part.share = -4
    print(half(3 * 2), xs[0], ys[1], share if share is not None else 0.5)
