"""Prepares a run from the arguments of a command.

* `files` reads and checks playbooks, `payload` the inputs of a run, `environments` the sections of `noetl.toml`; `yaml_value`
  parses values of options.
* `packages` installs the packages that tasks import, `services` starts the services that an example calls, `plugins` finds the
  kinds of a playbook whose distribution is not installed.

Nothing here reaches executions: `backends` do.
"""
