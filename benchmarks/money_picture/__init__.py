"""The picture of the README: dollars over time of a run with a cap, a `kill -9` and a resume."""
