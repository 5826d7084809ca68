"""The product as one table: four ways to write work, seven promises, each cell a test."""
