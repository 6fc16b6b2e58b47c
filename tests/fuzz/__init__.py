"""Calls everything that templates can call with large arguments, each call in a process of its own: `make fuzz`.

`cases` lists the calls, from the environment of templates, so that nothing new is forgotten. `process` carries one out.
"""
