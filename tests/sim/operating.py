"""Shared by the tests of operators' requests and of limits."""

from __future__ import annotations

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/operate}\nworkflow:\n"
