"""Deployment: the embedded AWS (MiniStack) as a process, and template.yaml deployed to it or to any endpoint.

* `up` brings a stack up, `stack` finds and stops it, `deploy` and `package` put template.yaml and the code on an endpoint.
* `guard`, `throttle`, `environments` and `pollers` adapt MiniStack; `sam_local` prepares `sam local`; `meter` reads what
  functions have used, `processes` what the stack's processes take.

Nothing here is imported by a Lambda function or by a local run.
"""

REGION = "us-east-1"
"""Of an emulator on this machine."""
