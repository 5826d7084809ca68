from vegakit import program, vega


@program
def main() -> None:
    vega.trace.event("started")
    print("x")  # expect: x


# expect note: event started
