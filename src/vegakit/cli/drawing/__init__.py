"""Drawings of the dataflow graph of a program, for `vega explain`."""

__all__ = []
