"""Loops of one activation: `runner` begins and ends iterations, `collections` evaluates items, `chunks` distributes them,
`frames` claims rows of cursors (`frame_items` holds them), `results` collects results, `spread` decides when the rest is handed
over (`processor` measures processor time). The rules of loops are not here, but in `engine.loops`."""
