"""What starts playbooks by itself: `start` admits one occurrence or delivery of any trigger, `schedules` fires those whose
time has come, `operate` is what people do with triggers, and `operations` has it as operations of the API. Registering a
playbook installs them (`control.registration`).

Sources that bring deliveries are served where the deliveries come in; none of that is here.
"""
