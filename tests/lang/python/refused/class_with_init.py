from vegakit import program


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


@program
def main() -> int:
    return Point(1).x
