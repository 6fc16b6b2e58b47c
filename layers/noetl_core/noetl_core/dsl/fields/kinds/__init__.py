"""The tool kinds by purpose: `calls`, `data`, `services`, `aws` for services of AWS, `plugins` for those of distributions of
their own, and `engine` for those that the engine carries out itself.

Each declares its inputs, its options and the rules about them. The tools are in `noetl_core.tools` or in a plugin: nothing here
runs anything.
"""
