"""Ten programs as people write them, each in Vega, by hand, in LangGraph and in APPL."""
