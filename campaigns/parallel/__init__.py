"""Parallel runs of random programs held against their sequential runs."""
