"""`log` reads and writes logs, through ports.

* `codec` turns commits and commands into bytes; `stored_commits` decodes lazily, `decoded_commits` caches.
* `history` loads and folds the log of an execution, `run_history` that of a run; `carry_over` computes the history that a
redriven run keeps.
* `stored_values` loads the values that a log points to, within `load_budgets`.
* `concurrent_reads` reads several things at the same time.

No rule of execution is here.
"""
