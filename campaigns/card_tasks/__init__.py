"""Programs written from the language card alone, and a judge that runs them as written."""
