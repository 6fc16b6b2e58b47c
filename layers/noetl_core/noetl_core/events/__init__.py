"""The event log's schema: every event is stated once, and what asks what kind of event something is derives from that.

`control` has the payloads of the control stream, `runs` those of run streams, `shapes` the data that both hold. `event` is the
stored event itself, with the unions a type checker narrows by name. `table` says of each event what it is about and what it does;
`upcasts` brings older logs to today's form; `schema` makes the JSON Schema of it, `page` the page docs/events.md. Pure, and below
everything else: nothing here imports another part of the project. How events are stored is in `codec`, what they come to in
`engine.fold`.
"""
