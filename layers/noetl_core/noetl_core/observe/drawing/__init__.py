"""Draws the graph of a playbook: `graph` is the graph as data, Mermaid and DOT; `folding` folds its parallel branches; `layout`
places its parts (`layouts` caches that); `svg` draws it. Nothing here reads a log."""
