"""Imports state machines of the Amazon States Language (ASL) as playbooks: `noetl import asl`.

**Where the document is.** ASL passes one document from state to state, and every state may cut and mend it. A playbook has no
such document: steps read the results of other steps. So the import follows the document *symbolically*. It knows for each state
where each part of its input is: `$.user.name` behind a task with `ResultPath: $.user` is `steps.get_user.result.payload.name`,
the rest of `$` is still `workload`. A chain of tasks then reads like one that a person writes, and nothing is copied at run
time.

That fails where ways meet with different documents: behind a Choice, behind a catcher, or at a state that a cycle leads back
to (where a name such as `steps.check.result` means the last round). There, each way stores its document as it arrives: its
arc writes `ctx.data`, and the states behind read that. The same holds for a document that reads a variable (`Assign`), which
may be assigned again. A branch of a Parallel state has a name of its own (`ctx.<state>_<n>_data`), an iteration of a Map has
`iter.data`. What an error left is stored by the arc of the catcher (`ctx.<state>_error`), because only that arc can read the
error.

**What a state becomes.** A state of a machine is a step. A Parallel state is a fan-out, the steps of its branches, and a join.
A Map is a step with a loop, whose tasks are the states of one iteration: a pipeline with jumps can express any machine of
states that have no concurrency of their own. What cannot be written in place is a playbook of its own, called by a task: a
Parallel state with Catch or Retry (its failure must end the other branches, and that is what the end of an execution does), a
Map with Retry, and a Map or Parallel state within an iteration. Values that templates cannot compute (UUIDs, hashes, times)
come from a task of kind python before or behind the task of the state.

**What does not map** fails loudly: the state becomes a step that fails with the reason and a remedy. Nothing is dropped
silently.

* `asl` has the import: text in, playbooks and findings out. `reading` reads and checks a definition. `findings` are what the
  report lists.
* `values` are symbolic documents; `jsonpath`, `intrinsics` and `jsonata` make them of expressions, with the `names` of a state.
* `states` translates one state to a unit (`units`); `services`, `tables` and `signed` have its resource, `choices` its rules,
  `errors` its Retry and Catch, `maps` its items.
* `flow` follows the document. `graph` writes units as steps, `pipeline` as tasks, `machine` whole playbooks, `text` their text.
"""

from noetl_import.asl import Imported, import_asl
from noetl_import.findings import Finding, UnusableDefinition

__all__ = ["Finding", "Imported", "UnusableDefinition", "import_asl"]
