from vegakit import program, vega


def find() -> str:
    for i in range(3):
        while vega.limit(5, True):
            try:
                if i == 1:
                    return f"at {i}"
                break
            except Exception:
                print("never")
    return "nowhere"


@program
def main() -> None:
    print(find())  # expect: at 1
