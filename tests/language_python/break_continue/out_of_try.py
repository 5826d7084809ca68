from vegakit import program


@program
def main() -> None:
    for i in range(3):
        try:
            if i == 1:
                break
            print(i)  # expect: 0
        except Exception:
            print("never")
    print("out")  # expect: out
