"""Bringing the stack up: the embedded AWS (MiniStack) as a process, and template.yaml deployed to it or to any endpoint."""
