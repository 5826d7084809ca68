"""The trajectories, by what they are about; importing this enters all of them into the table."""

from campaigns.code_complaints.complaints import (
    context,
    money,
    output,
    processes,
    provider,
    reach,
    work,
)

__all__ = ["context", "money", "output", "processes", "provider", "reach", "work"]
