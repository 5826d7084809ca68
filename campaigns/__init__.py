"""Acceptance at full size: each campaign prints its figures last and exits 1 if one falls short."""
