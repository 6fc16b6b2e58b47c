"""The schema of the event log: every event is declared once, and all code derives its properties from that declaration.

* `control` has the payloads of the control stream (`waiting` those about timers, signals and children, `limits` those about
  limits), `runs` those of run streams. `shapes` has data that both contain, `redrives` the data of redrives, `aggregates` data
  about many runs or iterations together.
* `event` is the stored event, `envelope` its public form; both have the unions by which a type checker knows the payload of a
  name. `typed` makes the classes of payloads cheap to create.
* `table` has the properties of each event. `upcasts` convert events of older logs.
* `schema` generates the JSON Schema, `page` the page docs/events.md.

Pure, and below everything else: nothing here imports another part of the project. `codec` stores events;
`engine.fold.control_stream` applies them to the state.
"""
