"""Plain values that all packages share. Nothing here reads a log or a service.

* `frozen` is the decorator of value classes. `instants` converts times, `mappings` merges mappings.
* `request_bounds` are bounds of numbers in API requests.
* `strict_json` reads and writes the JSON that every store accepts; `large_json` decodes and encodes large JSON fast.
  `json_schema` checks values against schemas, and `answer_forms` decides which form asks for one.
* `result_refs` are references to stored results, `result_streams` reads stored objects in pieces, `outlines` locate the parts of
  large values.
"""
