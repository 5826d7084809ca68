import time
from vegakit import program


@program
def main() -> None:
    time.sleep(5)
