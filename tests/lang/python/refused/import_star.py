from vegakit import *


@program
def main() -> None:
    print(1)
