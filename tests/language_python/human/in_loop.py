# The same question in another round is another question.
# answer: yes
# answer: no
from vegakit import program, vega


@program
def main() -> None:
    for i in range(2):
        print(vega.text(vega.human.approve("Again?", "1h")))


# expect: true
# expect: false
