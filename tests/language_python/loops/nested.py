from vegakit import program


@program
def main() -> None:
    for i in range(2):
        for j in range(2):
            print(f"{i}{j}")


# expect: 00
# expect: 01
# expect: 10
# expect: 11
