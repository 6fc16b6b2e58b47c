"""Access control: only a browser on this machine that has the address, and no pages of other origins."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

NAMES = ("127.0.0.1", "localhost")
"""Valid hosts of requests. Other names, which somebody could make resolve to this machine, are refused (DNS rebinding)."""
OWN = frozenset({"same-origin", "none"})
"""Values of `Sec-Fetch-Site` for requests that do not come from another site's page."""
SAFE = frozenset({"GET", "HEAD"})


class Access:
    """Tickets and sessions of one server. A ticket is valid once; the browser gets a cookie for it, which is valid as long as the
    server runs. Thread-safe."""

    def __init__(self, port: int) -> None:
        self._hosts = {f"{name}:{port}" for name in NAMES} | (set(NAMES) if port == 80 else set())
        self._origins = {f"http://{host}" for host in self._hosts}
        self._cookie = f"noetl_console_{port}"  # cookies of one host are shared by its ports
        self._lock = threading.Lock()
        self._tickets: set[str] = set()
        self._sessions: set[str] = set()

    def ticket(self) -> str:
        """Return a new ticket."""
        made = secrets.token_urlsafe(32)
        with self._lock:
            self._tickets.add(made)
        return made

    def redeem(self, ticket: str) -> str | None:
        """Return the `Set-Cookie` for a ticket; None if it is not valid, or was used before."""
        with self._lock:
            if ticket not in self._tickets:
                return None
            self._tickets.remove(ticket)
            session = secrets.token_urlsafe(32)
            self._sessions.add(session)
        return f"{self._cookie}={session}; Path=/; HttpOnly; SameSite=Strict"

    def in_use(self) -> bool:
        """Return whether a browser has been admitted."""
        with self._lock:
            return bool(self._sessions)

    def foreign(self, method: str, headers: Mapping[str, str]) -> str:
        """Return why a request does not come from the console's own pages, in words; empty if it may."""
        host, origin = headers.get("Host", ""), headers.get("Origin")
        if host not in self._hosts:
            return f"{host[:100]!r} is not a name of this server"
        if origin is not None and origin not in self._origins:
            return f"the request comes from a page of {origin[:100]!r}"
        if headers.get("Sec-Fetch-Site", "none") not in OWN:
            return "the request comes from a page of another site"
        if method not in SAFE and origin is None:
            return "a request that changes something needs the header Origin"
        return ""

    def known(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request has the cookie of a session."""
        try:
            morsel = SimpleCookie(headers.get("Cookie", "")).get(self._cookie)
        except CookieError:
            return False
        with self._lock:
            return morsel is not None and morsel.value in self._sessions
