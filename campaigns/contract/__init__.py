"""The product as one table: seven ways to write work, seven promises, each cell a test."""
