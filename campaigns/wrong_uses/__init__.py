"""What a newcomer does wrong, and what is said to them: every wrong use is made for real, what is
printed is kept as one text, and a stranger can read it from beginning to end."""
