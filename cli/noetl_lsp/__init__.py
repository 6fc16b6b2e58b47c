"""The language server of playbooks: what an editor shows and changes, as functions of a text and a position.

* `text` has lines and positions; `outline` reads a text that may be half typed, `cursor` finds the place in it.
* `model` is the last valid version, with scopes and shapes of values; `symbols` are the named things of the text as it is.
* `keys` walks the JSON Schema, `expressions` and `names` know templates, `code` programs, `words` the words of templates.
* `completion`, `hover`, `navigation` (definitions, references, renaming, outline), `fixes` and `test_files` answer.
* `server` speaks the protocol.

All but `server` are pure, apart from `test_files`, which lists files. Nothing here runs a playbook. `noetl lsp` imports it, and
the local console, which needs no `server`.
"""
