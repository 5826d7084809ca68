"""What a decision costs, as ratios to a bare function call in the same run."""
