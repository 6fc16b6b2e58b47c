"""The filters and tests of playbook templates, one module per subject: `collections`, `data`, `dates`, `regexes`, `tests` and
`text`; `registry` declares them. Functions and methods of templates are in `expr.functions` and `expr.methods`.

They have the names and arguments of Jinja2's own, but count their work, return lists instead of generators, never read attributes
that are not data, and escape nothing by default. Left out: `random` (an evaluation is a pure function of its scope), `pprint`,
`urlize` and `xmlattr` (for web pages).

Added: `tojson`, `fromjson`, `b64encode`, `b64decode`, `bool` (data), `regex_match`, `regex_search`, `regex_replace`,
`regex_findall` (regexes), `parse_datetime`, `format_datetime`, `to_epoch`, `from_epoch`, `add_seconds`, `date_add` (dates).
"""

from noetl_core.expr.filters import collections, data, dates, regexes, tests, text  # noqa: F401 - each declares its filters when it is imported
from noetl_core.expr.filters.registry import FILTERS, TESTS

__all__ = ["FILTERS", "TESTS"]
