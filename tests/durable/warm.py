"""Importing this imports what a worker of these tests needs."""

from tests.durable.dying import MODEL
from vegakit.providers.access import ProviderAccess
from vegakit.providers.registry import build_model

PRICE = build_model(MODEL, ProviderAccess(lambda: "")).price
