"""Bearer tokens: each is of a tenant, a user and a role, and is kept as a digest only.

    vega_<id>_<secret>

The id finds the record; the secret is compared with its digest. A secret has 256 random bits, so a
plain digest of it cannot be searched. Tokens are documents of a tenant without a name, which no
caller can be of.
"""

import hashlib
import hmac
import secrets
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from vegakit.control import OperationError, RefusalCode, Right, TenantRecord
from vegakit.ids import TenantId
from vegakit.kernel import SERVERS, TENANT, KernelCaller
from vegakit.money import Money
from vegakit.ports import Clock, TenantRecords, TenantStore
from vegakit.records import from_json, to_json

_TOKENS = SERVERS
_KIND = "token"
_PREFIX = "vega"
_MOST = 1_000
_LONGEST = 200


class TokenRole(StrEnum):
    """The roles a token can have; `ROLES` says what each may do."""

    VIEWER = "viewer"
    WORKER = "worker"
    OPERATOR = "operator"
    ADMIN = "admin"


ROLES: Final = {
    TokenRole.VIEWER: frozenset({Right.READ}),
    TokenRole.WORKER: frozenset({Right.READ, Right.ACT}),
    TokenRole.OPERATOR: frozenset({Right.READ, Right.ACT, Right.ANSWER}),
    TokenRole.ADMIN: frozenset({Right.READ, Right.ADMINISTER}),
}
"""A worker runs agents and must not answer for people what they ask. An admin is of the servers: it
says what tenants may spend, and spends nothing itself."""


class TokenRecord(Struct, frozen=True, omit_defaults=True):
    """A token as it is kept: without its secret."""

    id: str
    tenant: TenantId
    user: str
    role: TokenRole
    digest: str
    created_ms: int
    expires_ms: int | None = None
    revoked_ms: int | None = None
    wallet: Money | None = None


class Identity(NamedTuple):
    """A caller with the rights that it has."""

    caller: KernelCaller
    rights: frozenset[Right]


class Tokens:
    """The tokens of all tenants."""

    def __init__(self, store: TenantStore, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def create(
        self,
        tenant: str,
        user: str,
        role: TokenRole,
        *,
        valid_ms: int | None = None,
        wallet: Money | None = None,
    ) -> str:
        """Make a token and return it, the only time that it is seen. With a `wallet` the agents
        that servers run for its calls spend at most this in all."""
        if not _is_name(tenant) or not _is_name(user):
            raise OperationError(
                RefusalCode.INVALID,
                f"a token is of a tenant and of a user, each a name of 1 to {_LONGEST} characters "
                "that can be printed, without blanks around it",
            )
        if wallet is not None and Right.ACT not in ROLES[role]:
            raise OperationError(
                RefusalCode.INVALID,
                f"a token of the role {role} spends nothing, and so has no wallet; leave out "
                "--wallet, or make it of the role worker or operator",
            )
        key, secret, now = secrets.token_hex(8), secrets.token_urlsafe(32), self._clock.now()
        record = TokenRecord(
            key,
            TenantId(tenant),
            user,
            role,
            _digest(secret),
            now,
            None if valid_ms is None else now + valid_ms,
            wallet=wallet,
        )
        await self._store.transact(_TOKENS, lambda records: _create(records, record))
        return f"{_PREFIX}_{key}_{secret}"

    async def list(self, tenant: str | None = None) -> list[TokenRecord]:
        """Return the tokens of a tenant, or of all, the oldest first."""
        found = await self._store.read(
            _TOKENS, lambda records: records.find(_KIND, owner=tenant, limit=_MOST)
        )
        return [from_json(TokenRecord, document.value) for document in found]

    async def revoke(self, key: str) -> bool:
        """Refuse a token from now on; return whether there was one that was good."""

        def decide(records: TenantRecords) -> bool:
            found = records.get(_KIND, key)
            record = from_json(TokenRecord, found.value) if found else None
            if record is None or record.revoked_ms is not None:
                return False
            _put(records, replace(record, revoked_ms=self._clock.now()))
            return True

        return await self._store.transact(_TOKENS, decide)

    async def authenticate(self, token: str) -> Identity | None:
        """Return who has this token; None if nobody has, or no longer."""
        prefix, _, rest = token.partition("_")
        key, _, secret = rest.partition("_")
        if prefix != _PREFIX or not key.isalnum() or not key.isascii():
            return None
        found = await self._store.read(_TOKENS, lambda records: records.get(_KIND, key))
        if found is None:
            return None
        record, now = from_json(TokenRecord, found.value), self._clock.now()
        is_over = record.expires_ms is not None and now >= record.expires_ms
        is_same = hmac.compare_digest(record.digest, _digest(secret))
        if record.revoked_ms is not None or is_over or not is_same:
            return None
        key = "" if record.wallet is None else record.id
        caller = KernelCaller(record.tenant, record.user, key, record.wallet)
        return Identity(caller, ROLES[record.role])


def _create(records: TenantRecords, record: TokenRecord) -> None:
    """Keep a new token, and that there is such a tenant."""
    _put(records, record)
    if records.get(TENANT.name, record.tenant) is None:
        records.put(TENANT.name, record.tenant, to_json(TenantRecord(record.tenant)))


def _put(records: TenantRecords, record: TokenRecord) -> None:
    records.put(_KIND, record.id, to_json(record), rank=record.created_ms, owner=record.tenant)


def _is_name(text: str) -> bool:
    return 0 < len(text) <= _LONGEST and text.isprintable() and text == text.strip()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
