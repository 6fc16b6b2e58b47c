"""The schema of the event log: every event is declared once, and every question about its kind is answered from that
declaration.

* `control` has the payloads of the control stream (`limits` those about limits), `runs` those of run streams, `shapes` the data
  that both contain (`aggregates`: the data about many runs or iterations together).
* `event` is the stored event itself, `envelope` what readers get of it; both have the unions by which a type checker knows the
  payload of a name. `typed` makes the classes of payloads cheap to create.
* `table` says for each event what it is about and what it does. `upcasts` bring older logs to today's form.
* `schema` generates the JSON Schema, `page` the page docs/events.md.

Pure, and below everything else: nothing here imports another part of the project. How events are stored is in `codec`; their
effect on the state is in `engine.fold`.
"""
