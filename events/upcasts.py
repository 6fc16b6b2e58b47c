"""Reading older logs: named functions that convert an event's payload to today's form.

`@upcast("TokenExpired", 1)` registers a function that converts from the form in logs of reader version 1 to the next one.
Decoding applies it to commits of that version and of older ones, one function after the other, so all other code knows
today's form only. Keys that are added do not raise the version (`v` is the lowest reader that may interpret a commit), so an
upcast must leave a payload that has the newer form unchanged. A registered function stays for ever: somebody's log has that
form.
"""
