"""The pipeline of one step run: `pipeline` is its state machine, `policy` turns outcomes into directives. No task is run here:
`worker` does that."""
