# They belong to the innermost loop.
from vegakit import program


@program
def main() -> None:
    for i in range(2):
        for j in range(5):
            if j == 1:
                continue
            if j == 3:
                break
            print(f"{i}{j}")


# expect: 00
# expect: 02
# expect: 10
# expect: 12
