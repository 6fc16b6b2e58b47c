"""The catalog: `registration` stores versions of playbooks and installs their triggers; `versions` resolves which version
starts, and keeps aliases, tags and deletions. Nothing here starts an execution."""
