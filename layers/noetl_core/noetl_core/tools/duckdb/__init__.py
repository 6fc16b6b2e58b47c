"""`kind: duckdb`: SQL over rows and files. `tool` is the entry; `sources` and `attach` make tables, `results` stores files. No
database outlives its task."""
