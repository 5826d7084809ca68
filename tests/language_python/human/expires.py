# Nobody answers: at expiry it is denied.
from vegakit import program, vega


@program
def main() -> None:
    print(vega.text(vega.human.approve("Anybody?", "2h")))  # expect: false


# expect time: 2h
