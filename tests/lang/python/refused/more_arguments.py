from vegakit import program


@program
def main() -> None:
    print("a,b".split(",", 1)[0])
    print("xax".strip("x"))
    print("aa".replace("a", "b", 1))
    print(" a".lstrip())
    print(int("ff", 16))
