# answer: yes
from vegakit import program, vega


@program
def main() -> None:
    if vega.human.approve("Open 3 issues?", "1d"):
        print("opened")  # expect: opened
