"""Connections to PostgreSQL of a process: one pool for each way to connect (server, database, user, password).

A connection is cleared when its task has ended (`DISCARD ALL`: settings, temporary tables, locks, listeners, cursors), so that an
idle one holds nothing and the next task finds nothing; it must answer `SELECT 1` before it is used again. At most `MAX_OPEN` are
open to one target, and a call waits for one of them. Connections that nobody used for `IDLE_S` are closed.

The driver's own pool (psycopg_pool) reports only a timeout if a server refuses connections; here the task gets the server's
error.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.tools.postgres.address import pin_addresses
from noetl_core.tools.secrets import flat, read_credential

CONNECT_TIMEOUT_S: Final = 10
MAX_OPEN: Final = 16
"""The most connections to one target. A server allows a hundred by default, and there are many workers."""
MAX_IDLE: Final = 8
"""The most idle connections, to all targets together."""
IDLE_S: Final = 60.0
WAIT_S: Final = 30.0
"""Seconds for which a call waits for a connection, unless its timeout is shorter."""
SILENT_MS: Final = 20_000
"""A server that does not acknowledge data for this long counts as gone: a frozen process may find dead connections."""
_FIELDS: Final = {
    "host": "host", "hostname": "host", "hostaddr": "hostaddr", "port": "port", "dbname": "dbname", "database": "dbname",
    "db_name": "dbname",
    "db_host": "host", "db_port": "port", "db_user": "user", "db_username": "user", "db_password": "password",
    "user": "user", "username": "user", "password": "password", "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
}  # fmt: skip

Connection = psycopg.Connection[tuple[Any, ...]]
Where = tuple[tuple[str, str], ...]
"""The parameters of a connection: libpq's, sorted."""


class AllInUse(Exception):
    """No connection to the target became free in time. Who acts: the operator, by running fewer tasks at once; a retry may
    help."""


class Connections:
    """Opens, pools and closes connections. Thread-safe."""

    def __init__(self, policy: AddressPolicy | None = None, most_open: int = MAX_OPEN, idle_s: float = IDLE_S) -> None:
        """`policy` None: read from the environment at the first call."""
        self._policy, self._most_open, self._idle_s = policy, most_open, idle_s
        self._idle: list[tuple[float, Where, Connection]] = []
        self._open: Counter[Where] = Counter()
        self._freed = threading.Condition()
        self._closer: threading.Thread | None = None

    def take(self, where: Where, cancelled: threading.Event | None = None, timeout_s: float | None = None) -> Connection:
        """Return a connection, to be given back. Raises `psycopg.Error`, `AddressRefused`, `OSError`, `BadInput`, `AllInUse`."""
        self._reserve(where, cancelled, WAIT_S if timeout_s is None else min(WAIT_S, timeout_s))
        try:
            return self._kept(where) or self._made(where)
        except BaseException:
            self._release(where)
            raise

    def give_back(self, where: Where, connection: Connection) -> None:
        """Keep the connection, cleared, or close it."""
        try:
            with suppress(psycopg.Error):
                if not connection.closed and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                    connection.isolation_level = connection.read_only = None
                    connection.autocommit = True
                    connection.execute("DISCARD ALL")
                    if self._keep(where, connection):
                        return
            connection.close()
        finally:
            self._release(where)

    def close(self) -> None:
        """Close the connections that are kept."""
        with self._freed:
            idle, self._idle = self._idle, []
        for _since, _where, connection in idle:
            connection.close()

    def _reserve(self, where: Where, cancelled: threading.Event | None, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        with self._freed:
            while self._open[where] >= self._most_open:
                left = deadline - time.monotonic()
                if left <= 0 or (cancelled is not None and cancelled.is_set()):
                    raise AllInUse(f"all {self._most_open} connections that this worker may have to the database are in use")
                self._freed.wait(min(left, 0.5))
            self._open[where] += 1

    def _release(self, where: Where) -> None:
        with self._freed:
            self._open[where] -= 1
            if not self._open[where]:
                del self._open[where]
            self._freed.notify_all()

    def _kept(self, where: Where) -> Connection | None:
        """Return a kept connection that still answers."""
        while True:
            with self._freed:
                found = next((entry for entry in reversed(self._idle) if entry[1] == where), None)
                if found is None:
                    return None
                self._idle.remove(found)
            connection = found[2]
            if time.monotonic() - found[0] <= self._idle_s:
                with suppress(psycopg.Error):
                    connection.execute("SELECT 1")
                    connection.autocommit = False
                    return connection
            connection.close()

    def _made(self, where: Where) -> Connection:
        self._policy = self._policy or AddressPolicy.from_environment()
        target = pin_addresses(dict(where), self._policy)
        parameters: dict[str, Any] = {
            "connect_timeout": CONNECT_TIMEOUT_S, "application_name": "noetl", "tcp_user_timeout": SILENT_MS, **target
        }  # fmt: skip
        connection = psycopg.connect(**parameters)
        connection.prepare_threshold = None  # `DISCARD ALL` drops prepared statements that the driver relies on
        return connection

    def _keep(self, where: Where, connection: Connection) -> bool:
        with self._freed:
            if len(self._idle) >= MAX_IDLE:
                return False
            self._idle.append((time.monotonic(), where, connection))
            if self._closer is None:
                self._closer = threading.Thread(target=self._close_idle, name="noetl-postgres", daemon=True)
                self._closer.start()
        return True

    def _close_idle(self) -> None:
        """Close expired connections, until none is kept."""
        while True:
            with self._freed:
                if not self._idle:
                    self._closer = None
                    return
                wait_s = self._idle[0][0] + self._idle_s - time.monotonic()
                old = self._idle.pop(0)[2] if wait_s <= 0 else None
            if old is None:
                time.sleep(min(wait_s, 1.0))
            else:
                old.close()


def where_of(call: ToolCall) -> Where:
    """Return how to connect: by a credential's name, its fields, or a connection string (a credential's `dsn`, or
    `connection`). Raises `BadInput`, `NotFound`."""
    return target_of(call, call.inputs.get("auth", call.inputs.get("connection")), call.inputs.get("database"))


def target_of(call: ToolCall, auth: Any, database: Any = None) -> Where:
    """Return how to connect according to `auth`, and to another database there. Raises `BadInput`, `NotFound`."""
    if isinstance(auth, str) and ("=" in auth or "://" in auth):
        fields: Mapping[str, Any] = {"dsn": auth}
    elif isinstance(auth, str) and auth:
        fields = read_credential(call, auth)
    elif isinstance(auth, Mapping):
        name = auth.get("credential")
        fields = {**(read_credential(call, name) if isinstance(name, str) else {}), **flat(auth)}
    else:
        raise BadInput("`auth` must name a credential with the fields host, port, dbname, user, password (or dsn)")
    dsn = next((fields[name] for name in ("dsn", "url", "uri", "connection_string") if fields.get(name)), None)
    try:
        base: dict[str, Any] = dict(conninfo_to_dict(str(dsn))) if dsn else {}
    except psycopg.Error as error:
        raise BadInput(f"the connection string cannot be read: {type(error).__name__}") from error
    settings = {**base, **{name: value for name, value in fields.items() if value not in (None, "")}}
    if database:
        settings["dbname"] = database
    return tuple(sorted({_FIELDS[name]: str(value) for name, value in settings.items() if name in _FIELDS}.items()))
