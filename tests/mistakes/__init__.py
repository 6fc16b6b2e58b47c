"""Mistakes that authors make, and what finds each (`mistakes.yaml`); docs/language/mistakes.md is made from it."""
