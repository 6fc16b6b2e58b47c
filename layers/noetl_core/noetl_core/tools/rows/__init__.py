"""Rows and objects of any size, in constant memory: `sources` reads rows, `stored` writes files of rows, `bodies` reads and
writes formats, `outlined` outlines JSON while it is written, `csv_pipes` moves CSV through DuckDB (`duckdb_memory` is its
limit, `scratch` its folders). No database or service is known here."""
