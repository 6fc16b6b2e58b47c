"""`cursor: {kind: postgres}`: rows of a table, claimed by columns of their own, or by statements of the author.

A row of `table` can be claimed if its `claimed_until` is null and `where` holds, or if its `claimed_until` has passed. A claim
writes `claimed_by` (the id of the frame) and `claimed_until`. Settling sets `claimed_until` to null, or deletes the row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from noetl_core.tools.base import BadInput
from noetl_core.tools.cursors.base import Claimed, ClaimIds, Inputs, Row, Settlement

NAME: Final = r'(?:[A-Za-z_][\w$]*|"[^"\x00]+")'
TABLE: Final = re.compile(rf"{NAME}(?:\.{NAME}){{0,2}}\Z")
COLUMN: Final = re.compile(rf"{NAME}\Z")
KEY: Final = "noetl_key"
KEY_TYPE: Final = "noetl_key_type"
_TYPE: Final = re.compile(r'[\w "().,\[\]]{1,200}\Z')
LEASE: Final = "now() + make_interval(secs => %(lease_s)s)"
_OWN: Final = frozenset({"claim_id", "failed_id", "limit", "lease_s", "keys"})
"""Parameters that statements of the author may bind in addition to their own."""


class PostgresCursor:
    """Claims rows of a table, or by statements: the fields are those of `dsl.fields.cursor`."""

    kind = "postgres"

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._connect = {name: fields[name] for name in ("auth", "connection", "database") if fields.get(name) is not None}
        params = fields.get("params") or {}
        if not isinstance(params, Mapping):
            raise BadInput(f"`cursor.params` must be a mapping, not {type(params).__name__}")
        if taken := sorted(_OWN.intersection(params)):
            raise BadInput(f"`cursor.params` cannot have {taken[0]}: the cursor binds that itself")
        self._params = dict(params)
        self._key = _name(fields.get("key") or "id", COLUMN, "key")
        self._numbered = not fields.get("key") and _is_forgetful(fields)
        """If true, rows without a key are accepted, and numbered within their claim."""
        self._claim, self._count = "", 0
        self._statements: _Table | _Author = _Author(fields) if fields.get("claim") else _Table(fields, _in_sql(self._key))
        self.fills = self._statements.fills

    def claim(self, ids: ClaimIds, limit: int, lease_s: float) -> Inputs:
        texts = self._statements.claim()
        if self._claim != ids.claim:
            self._claim, self._count = ids.claim, 0
        return self._inputs(texts, ids, limit=limit, lease_s=lease_s)

    def claimed(self, result: Any) -> Claimed:
        rows, key_type = [], None
        hidden = self._statements.hidden
        key = KEY if isinstance(self._statements, _Table) else self._key.strip('"')
        for row in result["rows"]:
            if self._numbered and key not in row:
                self._count += 1
                rows.append(Row(f"{self._claim}/{self._count}", row))
                continue
            if row.get(key) is None:
                raise BadInput(f"the rows of `cursor.claim` have no {key}: return the key, or name it in `cursor.key`")
            key_type = row.get(KEY_TYPE, key_type)
            rows.append(Row(str(row[key]), {name: value for name, value in row.items() if name not in hidden}))
        return Claimed(rows, key_type)

    def renew(self, ids: ClaimIds, rows: Sequence[Row], key_type: str | None, lease_s: float) -> Sequence[Inputs]:
        text = self._statements.renew(key_type)
        return [self._inputs([text], ids, keys=_keys(rows), lease_s=lease_s)] if text is not None and rows else []

    def held(self, result: Any, rows: Sequence[Row]) -> Collection[str]:
        found = {str(next(iter(row.values()))) for row in result["rows"]}
        return {row.key for row in rows if row.key in found}

    def settle(self, ids: ClaimIds, settlement: Settlement, key_type: str | None) -> Sequence[Inputs]:
        commands = []
        for what, rows in (("done", settlement.done), ("failed", settlement.failed), ("released", settlement.released)):
            statement = self._statements.settle(what, key_type) if rows else None
            if statement is not None:
                text, values = statement
                commands.append({"command": text, "params": {**self._bound(text, ids, keys=_keys(rows)), **values}})
        return [{**self._connect, "commands": commands}] if commands else []

    def _inputs(self, texts: Sequence[tuple[str, Mapping[str, Any]]], ids: ClaimIds, **values: Any) -> dict[str, Any]:
        commands = [{"command": text, "params": {**self._bound(text, ids, **values), **more}} for text, more in texts]
        return {**self._connect, "commands": commands}

    def _bound(self, text: str, ids: ClaimIds, **values: Any) -> dict[str, Any]:
        """Return the parameters that a statement uses. Others would be harmless, but would appear in the server's log."""
        known = {**self._params, "claim_id": ids.claim, "failed_id": ids.failed, **values}
        return {name: value for name, value in known.items() if f"%({name})" in text}


class _Table:
    """Statements that are generated for a table."""

    fills = True

    def __init__(self, fields: Mapping[str, Any], key: str) -> None:
        self._table = _in_sql(_name(fields.get("table"), TABLE, "table"))
        self._alias = self._table.rpartition(".")[2] if '"' not in self._table else self._table.split(".")[-1]
        by = _name(fields.get("claimed_by") or "claimed_by", COLUMN, "claimed_by")
        until = _name(fields.get("claimed_until") or "claimed_until", COLUMN, "claimed_until")
        self._by, self._until = _in_sql(by), _in_sql(until)
        self._key = key
        self._where = _sql(fields.get("where") or "true")
        self._order = _sql(fields["order"]) if fields.get("order") else key
        self._set = _values(fields.get("set"), "set", "s")
        self._done, self._failed = fields.get("done"), fields.get("failed")
        if self._done is None:
            raise BadInput("`cursor.done` is missing: columns to set in rows that are done, or the word delete")
        self.hidden = frozenset({KEY, KEY_TYPE, by.strip('"'), until.strip('"')})

    def claim(self) -> list[tuple[str, Mapping[str, Any]]]:
        assigned, values = self._set
        free = f"{self._until} IS NULL AND ({self._where}) OR {self._until} <= now()"
        if not assigned:  # only the claim marks a row as in progress, so `where` always holds
            free = f"({self._until} IS NULL OR {self._until} <= now()) AND ({self._where})"
        key, table, by, until = self._key, self._table, self._by, self._until
        text = (
            f"WITH held AS MATERIALIZED (SELECT {key} AS k FROM {table} WHERE {by} = %(claim_id)s AND {until} IS NOT NULL),"
            f" fresh AS MATERIALIZED (SELECT {key} AS k FROM {table} WHERE ({free}) AND {by} IS DISTINCT FROM %(failed_id)s"
            f" AND NOT EXISTS (SELECT 1 FROM held) ORDER BY {self._order} LIMIT %(limit)s FOR UPDATE SKIP LOCKED),"
            f" taken AS (UPDATE {table} SET {by} = %(claim_id)s, {until} = {LEASE}{assigned}"
            f" WHERE {key} IN (SELECT k FROM held UNION ALL SELECT k FROM fresh)"
            f" RETURNING *, {key}::text AS {KEY}, pg_typeof({key})::text AS {KEY_TYPE})"
            f" SELECT * FROM taken AS {self._alias} ORDER BY {self._order}"
        )
        # Serialises two workers with the same claim, one of which has lost its run without knowing it yet.
        lock = "SELECT pg_advisory_xact_lock(hashtextextended(%(claim_id)s, 0))"
        return [(lock, {}), (text, values)]

    def renew(self, key_type: str | None) -> tuple[str, Mapping[str, Any]]:
        # Also claims a row that failed in this run and was released, unless others have claimed it: a redrive runs it again.
        mine = f"{self._by} IN (%(claim_id)s, %(failed_id)s)"
        text = (
            f"UPDATE {self._table} SET {self._by} = %(claim_id)s, {self._until} = {LEASE}"
            f" WHERE {self._among(key_type)} AND {mine} RETURNING {self._key}::text"
        )
        return text, {}

    def settle(self, what: str, key_type: str | None) -> tuple[str, Mapping[str, Any]]:
        whose = f"WHERE {self._among(key_type)} AND {self._by} = %(claim_id)s"
        changes = {"done": self._done, "failed": self._failed, "released": None}[what]
        if changes == "delete":
            return f"DELETE FROM {self._table} {whose}", {}
        if changes is None:  # released: anybody may claim it, except this run if the row failed in it
            mark = f"{self._by} = %(failed_id)s, " if what == "failed" else ""
            return f"UPDATE {self._table} SET {mark}{self._until} = now() {whose}", {}
        assigned, values = _values(changes, what, "v")
        return f"UPDATE {self._table} SET {self._until} = NULL{assigned} {whose}", values

    def _among(self, key_type: str | None) -> str:
        if key_type is None or not _TYPE.match(key_type):
            return f"{self._key}::text = ANY(%(keys)s::text[])"
        return f"{self._key} = ANY(%(keys)s::text[]::{key_type}[])"


class _Author:
    """Statements that the author wrote."""

    hidden: frozenset[str] = frozenset()

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._texts: dict[str, str] = {}
        for name in ("claim", "renew", "done", "failed", "release"):
            text = fields.get(name)
            if text is not None and not isinstance(text, str):
                raise BadInput(f"`cursor.{name}` must be SQL text when `cursor.claim` is set, not {type(text).__name__}")
            if text is not None:
                self._texts[name] = _sql(text)
        self.fills = "%(limit)" in self._texts["claim"]

    def claim(self) -> list[tuple[str, Mapping[str, Any]]]:
        return [(self._texts["claim"], {})]

    def renew(self, key_type: str | None) -> tuple[str, Mapping[str, Any]] | None:
        text = self._texts.get("renew")
        return None if text is None else (text, {})

    def settle(self, what: str, key_type: str | None) -> tuple[str, Mapping[str, Any]] | None:
        text = self._texts.get("release" if what == "released" else what)
        return None if text is None else (text, {})


def _is_forgetful(fields: Mapping[str, Any]) -> bool:
    """Return whether a claim of the author returns no row twice, and no statement needs the keys of rows."""
    claim = fields.get("claim")
    others = any(fields.get(name) for name in ("renew", "done", "failed", "release"))
    return isinstance(claim, str) and "%(claim_id)" not in claim and not others


def _keys(rows: Sequence[Row]) -> list[str]:
    return [row.key for row in rows]


def _name(name: Any, form: re.Pattern[str], what: str) -> str:
    if not isinstance(name, str) or not form.match(name):
        raise BadInput(f"`cursor.{what}` {str(name)[:60]!r} is not the name of a {'table' if form is TABLE else 'column'}")
    return name


def _in_sql(name: str) -> str:
    """Return a name as SQL for psycopg, which interprets percent signs."""
    return name.replace("%", "%%")


def _sql(text: Any) -> str:
    """Return SQL for psycopg: a percent sign is itself, unless the text binds parameters."""
    if not isinstance(text, str):
        raise BadInput(f"`cursor` takes SQL text here, not {type(text).__name__}")
    return text if "%(" in text else text.replace("%", "%%")


def _values(changes: Any, what: str, prefix: str) -> tuple[str, dict[str, Any]]:
    """Return the assignments of a mapping of columns to values, and their parameters."""
    if changes is None:
        return "", {}
    if not isinstance(changes, Mapping):
        raise BadInput(f"`cursor.{what}` must be a mapping of columns to values{'' if what == 'set' else ', or the word delete'}")
    names = [_in_sql(_name(column, COLUMN, what)) for column in changes]
    values = {f"{prefix}_{n}": value for n, value in enumerate(changes.values())}
    return "".join(f", {name} = %({place})s" for name, place in zip(names, values, strict=True)), values
