"""Programs that models write, beside peers: what is known before, spent at most, sent again."""
