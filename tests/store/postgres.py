"""A schema of its own for each test, on the PostgreSQL server that the tests share."""

import os
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

__all__ = ["DSN", "asked", "connected", "own_schema"]

DSN = os.environ.get("VEGA_TEST_POSTGRES", "host=127.0.0.1 port=5432 dbname=test")


def connected() -> "psycopg.Connection[Any]":
    try:
        return psycopg.connect(DSN, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as error:
        pytest.fail(f"no PostgreSQL at {DSN!r}; type: bash .ci/servers ({error})")


@contextmanager
def own_schema() -> Generator[str]:
    """Dropped afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    connected().close()
    try:
        yield name
    finally:
        with connected() as server:
            server.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))


def asked(schema: str, query: str) -> list[tuple[Any, ...]]:
    with connected() as server:
        server.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
        return server.execute(query.encode()).fetchall()
