"""The message bus that several servers share, on a Redis server."""

from vegakit.store.redis.bus import RedisBus

__all__ = ["RedisBus"]
