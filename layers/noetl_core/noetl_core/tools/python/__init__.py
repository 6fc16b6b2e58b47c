"""`kind: python`: programs in separate processes (`tools.sandbox`). `tool` is the entry; `reads` finds what a program may read;
`packages` finds what it imports, in the layers of a stack. No program runs in the process of the worker."""
