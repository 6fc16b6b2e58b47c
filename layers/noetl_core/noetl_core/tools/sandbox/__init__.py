"""Running an author's Python apart from the worker: a fork server, its runners, what confines them, and the pool in the worker.

`zygote`, `runner`, `confine` and `plain` run in the separate process and import the standard library only; `pool` runs in the
worker. The worker believes nothing a runner says beyond "this is the outcome of the task I gave you".
"""
