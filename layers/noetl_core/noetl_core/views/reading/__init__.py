"""Finds places in logs of any length, with a bounded number of reads.

* `cursor` is the signed position of a reader, `envelopes` the public form of events, `positions` finds the n-th event or an
  instant.
* `newest_first` reads a history from its end. `snapshot_search` finds the snapshot near a place.
* `log_parts` and `log_search` read parts of a long control stream. `loop_streams` finds the iterations of a loop,
  `run_progress` the progress of a run just after an event.

Nothing here is an answer of the API.
"""
