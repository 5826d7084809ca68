"""Importing this imports what a worker of these tests needs."""

from tests.durable.dying import MODEL
from vegakit.providers import ProviderAccess, build_model

PRICE = build_model(MODEL, ProviderAccess(lambda: "")).price
