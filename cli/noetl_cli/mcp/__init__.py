"""Serves MCP clients (Model Context Protocol) for `noetl mcp`: assistants, and agents of other systems.

* `tools` has the form of a tool, and of its answer. `server` offers tools over the protocol, on standard input and output;
  `http` does on a port of this machine, and checks who calls.
* `catalog` finds the registered playbooks that are tools, with their input schemas. `callers` has the operations that a caller
  may use, with the caller's own rights. `executions` starts, follows and answers executions.
* `authoring` has the tools of `noetl mcp --author`; `manual` searches the pages of the manual.

The extra `mcp` brings the SDK. `server` and `http` import it, and no other module.
"""
