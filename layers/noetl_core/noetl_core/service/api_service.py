"""The service behind the API, with all operations."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from noetl_core.api.app import Api
from noetl_core.api.callers import Rights
from noetl_core.control.core import Control
from noetl_core.service.answering import Service as Service
from noetl_core.service.operations.base import cursor_key


def api_of(control: Callable[[], Control]) -> Api:
    """Return the API over a control plane, without credentials, which another function serves."""
    facts = json.loads(os.environ.get("RUNTIME_FACTS", "{}"))
    return Api(Service(control, cursor_key(control), facts, rights=Rights.from_environment()))
