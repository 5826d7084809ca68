"""A schema of its own for each test, on the PostgreSQL server that the tests share."""

import os
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

__all__ = ["DSN", "asked", "connected", "dsn_of", "own_schema", "url_of", "waits"]

DSN = os.environ.get("VEGA_TEST_POSTGRES", "host=127.0.0.1 port=5432 dbname=test")


def connected() -> "psycopg.Connection[Any]":
    try:
        return psycopg.connect(DSN, autocommit=True, connect_timeout=30)
    except psycopg.OperationalError as error:
        raise AssertionError(f"no PostgreSQL at {DSN!r}; type: bash .ci/servers") from error


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


def dsn_of(schema: str) -> str:
    """Under which the server knows the connections of one test."""
    return f"{DSN} application_name={schema}"


def url_of(schema: str) -> str:
    """The name that settings have for it."""
    with connected() as server:
        at = server.info
        return f"postgresql://{at.user}@{at.host}:{at.port}/{at.dbname}?schema={schema}"


def waits(schema: str) -> bool:
    """Whether one of them waits for a lock."""
    query = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = %s"
    with connected() as server:
        return bool(server.execute(query, (schema, "Lock")).fetchall())
