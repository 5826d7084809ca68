"""Who sits at this machine, as its system knows them; no variable can say otherwise."""

import os

__all__ = ["user_name"]


def user_name() -> str:
    try:
        import pwd  # not on every system

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError, AttributeError):
        return f"user {os.geteuid()}" if hasattr(os, "geteuid") else "user"
