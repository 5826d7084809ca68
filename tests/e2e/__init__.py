"""The whole way to a real model: `python tools/suites.py e2e`."""
