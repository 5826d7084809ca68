from vegakit import program


@program
def main() -> None:
    for n in [1, 2, 3]:
        if n == 1:
            print("one")
        elif n == 2:
            print("two")
        else:
            print("many")


# expect: one
# expect: two
# expect: many
