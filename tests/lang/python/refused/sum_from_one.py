from vegakit import program


@program
def main(numbers: list[int]) -> int:
    return sum(numbers, 1)
