from vegakit import program


@program
def main() -> None:
    for k, v in {"a": 1, "b": 2, "c": 3}.items():
        if v == 2:
            continue
        print(k)


# expect: a
# expect: c
