"""The product as one table: five ways to write work, seven promises, each cell a test."""
