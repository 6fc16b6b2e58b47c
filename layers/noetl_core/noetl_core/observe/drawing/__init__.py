"""Draws the graph of a playbook: `graph` is the graph as data, Mermaid and DOT; `layout` places its parts (`layouts` caches
that), in `columns` if it is tall; `svg` draws it. Nothing here reads a log."""
