"""NoETL core: the playbook language (v10) and its event-sourced engine. The Lambda functions and the local runner share it.

* `dsl`, `expr` and `engine` are pure: no input or output, no clock, no randomness, no environment.
* `control` and `worker` are the two services. They reach the outside world only through `ports`.
* `adapters` implement the ports: `adapters.aws` and `adapters.local`. `wiring` and `local` put services and adapters
  together.
* `tools` run the tasks of playbooks. `observe` turns histories into timelines, graphs, costs and logs.

The command line (`cli`), the Lambda handlers (`functions`) and the deployment (`infra`) are not here; they import this
package.
"""

__version__ = "0.1.0"
