# Edits give a new list and leave the old.
from vegakit import program, vega


@program
def main() -> None:
    xs = [1, 2, 3]
    print(vega.text(vega.list.insert(xs, 1, 9)))  # expect: [1,9,2,3]
    print(vega.text(vega.list.remove_at(xs, 0)))  # expect: [2,3]
    print(vega.text(xs))  # expect: [1,2,3]
    print(vega.text(vega.list.remove_at(xs, 3)))  # error: IndexError
