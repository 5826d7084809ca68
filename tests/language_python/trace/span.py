from vegakit import program, vega


@program
def main() -> None:
    id_ = vega.trace.span("work")
    print(vega.text(len(id_) > 0))  # expect: true


# expect note: span work
