"""Calls that wait or block: `event_loop` waits for sockets, `blocking` runs blocking work beside it, `watch` interrupts it,
`marked_processes` ends leftover processes. No kind is known here."""
