# A loop over a range of its length does not walk over the list, which may be changed there.
from vegakit import program


@program
def main() -> None:
    xs = [5, 3, 4]
    for _ in range(len(xs)):
        first = xs[0]
        for j in range(len(xs) - 1):
            xs[j] = xs[j + 1]
        xs[len(xs) - 1] = first
        print(", ".join([str(x) for x in xs]))
    # expect: 3, 4, 5
    # expect: 4, 5, 3
    # expect: 5, 3, 4
