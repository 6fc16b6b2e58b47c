"""`kind: mcp`: a tool of an MCP server over streamable HTTP. `tool` is the entry; `connection` sends requests, `messages` are
the protocol's. No server is here."""
