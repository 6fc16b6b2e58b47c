"""The conformance kit: a YAML case per normative statement, run on the local runner and on the stack. See README.md."""
