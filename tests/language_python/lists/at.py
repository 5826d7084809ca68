# An index below zero counts from the end.
from vegakit import program, vega


@program
def main() -> None:
    xs = [4, 5, 0]
    xs[-1] = 6
    print(xs[-1])  # expect: 6
    print(xs[0])  # expect: 4
    print("word"[-4])  # expect: w
    for at in [3, -4]:
        try:
            print(xs[at])
        except IndexError as why:
            print(vega.reason(why))
        # expect: there is no item 3; there are 3
        # expect: there is no item -4; there are 3
    try:
        print(vega.str.at("word", 4))
    except IndexError as why:
        print(vega.reason(why))  # expect: there is no character 4; there are 4
