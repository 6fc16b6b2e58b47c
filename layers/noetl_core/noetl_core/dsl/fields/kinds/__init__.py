"""The tool kinds by what they are for: `calls`, `data`, `services`, `aws` for services of AWS, `plugins` for those
of distributions of their own, and `engine` for those that the engine carries out itself.

Each says its inputs, its options and which of them belong together. The tools are in `noetl_core.tools` or in a plugin:
nothing here runs anything.
"""
