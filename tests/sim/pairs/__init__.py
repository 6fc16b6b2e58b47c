"""Two operations at once: one runs to its end at a port call of another, for every ordered pair of operations and every call.

A case is a scene, an ordered pair of operations and a moment: `inner` runs just before or just after one port call of `outer`, on
another process. Afterwards the world comes to rest and then to its end. The invariants are checked at both, and the rule of
acknowledgement: what was acknowledged is in the log, and what is not in the log was refused.

`make pairs` runs every case with deliveries in the order of a seed, `python -m tests.sim.pairs live/pause/resume/13` those that are named. The
scenes are in `scenes`, the operations in `operations`, the checks in `checks`. Single faults of ports are not tried here: that is
what `tests.sim.test_faults` does.
"""
