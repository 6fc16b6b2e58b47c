"""A module for each kind, with its name (and `_` behind it where that is a word of Python): `CASES`, and what they need."""
