"""NoETL core: the playbook language (v10) and its event-sourced engine. The Lambda functions and the local runner share it.

* `dsl`, `expr`, `events` and `engine` are pure: no input or output, no clock, no randomness, no environment.
* `control` and `worker` are the two services. They reach the outside world only through `ports`.
* `adapters` implement the ports: `adapters.aws` and `adapters.local`. `wiring` and `worker_wiring` (on AWS), `local` and
  `local_runner` (in one process) put services and adapters together. `aws_clients` are the clients of AWS's services.
* `history`, `run_history`, `carried_over`, `values`, `playbooks`, `stored_commits` and `codec` read and write the data of the
  ports; `result_refs` are references to stored objects, `result_streams` reads these in pieces, `outlines` locate the parts of
  large values.
* `tools` run the tasks of playbooks. `observe` turns histories into timelines, graphs, costs and logs.
* `embedded` is `run`, for programs; `siblings` finds playbooks in the same folder; `script_files` includes script files.
  `client` is the typed client of the API.
* `instants`, `mappings`, `json_schema`, `event_patterns` and `strict_json` handle plain values; `python_code` handles the
  program text of tasks. `frozen` is the decorator of values, `at_once` makes concurrent reads.

The command line (`cli`), the Lambda handlers (`functions`), the deployment (`infra`) and further tool kinds (`plugins`) are
not here; they import this package.

Programs that run playbooks need `run`, which returns an `Execution`:

    import noetl_core

    execution = noetl_core.run("hello.yaml", {"name": "Ada"})
    print(execution.status, execution.result)

Both are loaded at their first use: importing this package loads nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["Execution", "__version__", "run"]


def __getattr__(name: str) -> Any:
    if name in ("Execution", "run"):
        return getattr(import_module("noetl_core.embedded"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
