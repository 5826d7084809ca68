"""The analysis tells what is known of a program before it runs: effect sets, dataflow graph, cost
bounds (pure)."""

__all__: list[str] = []
