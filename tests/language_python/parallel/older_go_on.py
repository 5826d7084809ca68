# The older ones are brought to their end.
from vegakit import Failed, parallel, program, vega


def slow() -> None:
    vega.process.sleep("2s")
    print("finished")


@program
def main() -> None:
    try:
        with parallel():
            slow()
            raise Failed("stop")
    except Failed:
        print("stopped")


# expect: finished
# expect: stopped
# expect time: 2s
