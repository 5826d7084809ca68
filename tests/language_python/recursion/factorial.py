from vegakit import program


def factorial(n: int) -> int:
    if n <= 1:
        return 1
    return n * factorial(n - 1)


@program
def main() -> None:
    print(factorial(10))  # expect: 3628800
    print(factorial(20))  # expect: 2432902008176640000
