"""Credentials of the local runner: environment variables, and a JSON file that only its owner may read."""

from __future__ import annotations

import difflib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from noetl_core.adapters.credentials import fields_of, json_object
from noetl_core.adapters.local.home import private_folder
from noetl_core.ports import NotFound

PREFIX = "NOETL_CREDENTIAL_"


class LocalSecrets:
    """`Secrets` in a file `{name: fields}` (mode 0600).

    The environment has precedence and is only read: credential `pg.main` may be given as JSON in `NOETL_CREDENTIAL_PG_MAIN`.
    """

    def __init__(self, path: str | Path, environment: Mapping[str, str] | None = None) -> None:
        self._path = Path(path)
        self._environment = os.environ if environment is None else environment

    def get(self, name: str) -> Mapping[str, Any]:
        variable = PREFIX + re.sub(r"[^A-Za-z0-9]", "_", name).upper()
        text = self._environment.get(variable)
        if text is not None:
            return fields_of(name, text)
        held = self._held()
        if name not in held:
            raise NotFound(
                f"there is no credential {name!r} on this machine{self._nearest(name, held)}: "
                f"noetl credentials put {name} --data @FILE --on local, or set the environment variable {variable}"
            )
        return json_object(name, json.dumps(held[name]))

    def _nearest(self, name: str, held: Iterable[str]) -> str:
        names = (key.removeprefix(PREFIX).lower() for key in self._environment if key.startswith(PREFIX))
        near = difflib.get_close_matches(name, [*held, *names], 1, cutoff=0.7)
        return f' (did you mean "{near[0]}"?)' if near else ""

    def put(self, name: str, value: Mapping[str, Any]) -> None:
        self._keep({**self._held(), name: dict(value)})

    def delete(self, name: str) -> None:
        held = self._held()
        if held.pop(name, None) is not None:
            self._keep(held)

    def names(self) -> Iterable[str]:
        """Return the names in the file. Those in the environment cannot be derived from their variables."""
        return sorted(self._held())

    def _held(self) -> dict[str, Any]:
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        return json_object(str(self._path), text)

    def _keep(self, held: Mapping[str, Any]) -> None:
        private_folder(self._path.parent)
        handle, draft = tempfile.mkstemp(dir=self._path.parent, prefix=".credentials-")  # mode 0600
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(held, file, indent=2)
        Path(draft).replace(self._path)
