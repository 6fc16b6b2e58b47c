"""Texts of playbooks that differ from version to version."""

from __future__ import annotations

PATH = "etl/daily"


def text(word: str, path: str = PATH, step: str = "") -> str:
    tool = step or f"tool: {{ kind: noop, result: {word} }}"
    return f"""apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: daily, path: {path} }}
workflow:
  - step: start
    {tool}
"""
