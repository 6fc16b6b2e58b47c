"""The console: pages that show executions and act on them, served to the browser of this machine.

`server` listens on loopback and lets one browser in (`access`); `assets` are the pages, static files that need no build
(`publishing` brings them to the bucket of a stack);
`answering` is the interface behind `/api`: the services of a local store in this process (`local`, whose executions `carrying`
carries out, and which runs tests of playbooks with `authored_tests`, and completes their texts with `editing`), or an API
elsewhere (`remote`). With `following`, open pages stay with the newest execution. The pages use only the HTTP API. Nothing of
`noetl_cli` is imported here.
"""
