"""Steps and what they contain: `steps`, `tasks`, `policy`, `loops`, `cursors`, `specs` (layers of `spec`) and `sugar`
(shorthand).

`nested` and `transfers` check inputs of tools whose keys are known, `scripts` and `programs` program texts, `secret_results`
results that are declared secret. No task is run here.
"""
