"""`kind: python`: programs in separate processes (`tools.sandbox`). `tool` is the entry; `reads` finds the names that a program
may read; `packages` finds its packages in the layers of a stack. No program runs in the process of the worker."""
