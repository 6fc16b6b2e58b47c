"""`kind: postgres`: SQL in one transaction per task. `tool` is the entry; `address` checks where `connections` go, `errors`
translates errors; `copy`, `export` and `parquet` move rows of any number. No SQL is built from values: parameters are bound."""
