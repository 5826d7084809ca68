"""Caps that hold: scopes that nest, claims that settle once, windows of time (pure)."""

from vegakit.policy.budget.claims import Admission, Budget, Claim, ClaimState, Settled
from vegakit.policy.budget.leases import LEASE_MS, LeaseWatch
from vegakit.policy.budget.scope_tree import ScopeTree
from vegakit.policy.budget.scopes import (
    MustAsk,
    Notice,
    OnExceed,
    Overran,
    Reserved,
    Scope,
    ScopeAdmission,
    ScopeClosed,
    ScopeRule,
    Short,
    ThresholdCrossed,
    WentOver,
)
from vegakit.policy.budget.spend_window import SpendWindow, WindowRule

__all__ = [
    "LEASE_MS",
    "Admission",
    "Budget",
    "Claim",
    "ClaimState",
    "LeaseWatch",
    "MustAsk",
    "Notice",
    "OnExceed",
    "Overran",
    "Reserved",
    "Scope",
    "ScopeAdmission",
    "ScopeClosed",
    "ScopeRule",
    "ScopeTree",
    "Settled",
    "Short",
    "SpendWindow",
    "ThresholdCrossed",
    "WentOver",
    "WindowRule",
]
