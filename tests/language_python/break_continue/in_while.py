from vegakit import program


@program
def main() -> None:
    n = 0
    while True:
        n += 1
        if n < 5:
            continue
        break
    print(n)  # expect: 5
