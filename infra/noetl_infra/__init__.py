"""Deployment: the embedded AWS (MiniStack) as a process, and template.yaml deployed to it or to any endpoint.

* `up` brings a stack up, `stack` finds and stops it, `deploy` and `package` put template.yaml and the code on an endpoint,
  `template_file` reads it.
* `guard`, `server`, `throttle`, `environments`, `expressions` and `pollers` adapt MiniStack; `sam_local` prepares `sam local`;
  `meter` reads the billed time of functions, `processes` the memory of the stack's processes.

Nothing here is imported by a Lambda function or by a local run.
"""

REGION = "us-east-1"
"""Credentials of an emulator on this machine."""
