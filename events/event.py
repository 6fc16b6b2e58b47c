"""The stored event, and the unions that tell a type checker which payload belongs to which name.

Comparing `event.name` narrows `event.data`: after `if event.name == "TokenParked":`, in `match event.name:` and after `in
("StepStarted", "StepResumed")` its keys are checked, and a name that no event has is refused.
"""
