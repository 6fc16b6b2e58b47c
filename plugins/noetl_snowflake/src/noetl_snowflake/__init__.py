"""`kind: snowflake` for NoETL: SQL on Snowflake (docs/tools/snowflake.md).

`tool` is the kind, `login` reads a credential, `files` writes results of any size, `source` is what `transfer` reads them by,
`errors` says what Snowflake's errors are as outcomes.
"""

from noetl_snowflake.tool import SnowflakeTool

__all__ = ["SnowflakeTool"]
