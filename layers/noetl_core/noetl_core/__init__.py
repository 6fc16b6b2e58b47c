"""NoETL core: the Playbook DSL (v10) and its event-sourced engine, shared by the Lambda functions and the local runner.

`dsl`, `expr` and `engine` are pure: no input or output, no clock, no randomness, no environment. `control` and `worker` are
the two services; they reach the world only through `ports`. `adapters` implement the ports; `tools` run tasks.
"""

__version__ = "0.1.0"
