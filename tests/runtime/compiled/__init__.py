"""Programs on the local runtime."""
