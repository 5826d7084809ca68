# The right side runs only where the left does not decide.
from vegakit import program, vega


def loud(answer: bool) -> bool:
    print("asked")
    return answer


@program
def main() -> None:
    print(vega.text(False and loud(True)))  # expect: false
    print(vega.text(True or loud(True)))  # expect: true
    print(vega.text(True and loud(False)))


# expect: asked
# expect: false
