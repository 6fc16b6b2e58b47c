"""NoETL core: the playbook language (v10) and its event-sourced engine. The Lambda functions and the local runner share it.

* `dsl`, `expr`, `events` and `engine` are pure: no input or output, no clock, no randomness, no environment. `values` has the
  plain values that all packages share.
* `control` and `worker` are the two services, `views` reads executions. All reach the outside world only through `ports`.
* `api` states each operation of the API once, as a request class, and has the HTTP client; `service` answers the requests.
  `client` is the public name of the client.
* `log` reads and writes logs. `playbooks` finds and caches playbook texts.
* `tools` run the tasks of playbooks. `observe` has the pure part of the views.
* `adapters` implement the ports on AWS and on one machine; `aws` has the clients of AWS's services. `runtime` connects services
  and adapters. `planning` forecasts executions. `testing` tests playbooks in this process; no other package imports it.
* `python_code` compiles the program text of tasks, for validation and for the process of a task. It stands alone, because that
  process loads nothing else.

The command line (`cli`), the Lambda handlers (`functions`), the deployment (`infra`) and further tool kinds (`plugins`) are
not here; they import this package.

Programs that run playbooks need `run`, which returns an `Execution`:

    import noetl_core

    execution = noetl_core.run("hello.yaml", {"name": "Ada"})
    print(execution.status, execution.result)

`View` shows an execution of a store or a stack in a notebook. All are loaded at their first use: importing this package loads
nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["Execution", "View", "__version__", "run"]
_PLACES = {
    "Execution": "noetl_core.runtime.embedded",
    "View": "noetl_core.runtime.notebook",
    "run": "noetl_core.runtime.embedded",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
