"""Bringing the stack up: the embedded AWS (MiniStack) as a process, and template.yaml deployed to it or to any endpoint."""

REGION = "us-east-1"
"""Of an emulator on this machine."""
