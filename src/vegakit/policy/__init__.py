"""The rules of the runtime, one small machine a file (pure).

Each machine is a record that turns to JSON and back at any step. It is told what happened, with
`now` in steady milliseconds, and answers with a verdict or actions as data; nobody here waits,
reads a clock, draws a random number or logs. Rules and table stand at the top of each file; the
tests hold every machine against an independent model.

Each is loaded when one of its names is first used: an agent on a laptop does not wait for the
machines that only the kernel runs.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
