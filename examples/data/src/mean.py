def mean(numbers):
    """The arithmetic mean."""
    total = sum(numbers)
    return total / len(numbers)
