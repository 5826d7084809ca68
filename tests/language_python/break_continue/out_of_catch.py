from vegakit import Failed, program


@program
def main() -> None:
    for i in range(3):
        try:
            raise Failed("x")
        except Failed:
            if i == 1:
                break
            continue
    print("out")  # expect: out
