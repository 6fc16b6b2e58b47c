"""What starts playbooks by itself: `start` admits one occurrence or delivery of any trigger, `schedules` fires those whose
time has come, `operate` is what people do with triggers, and `operations` has it as operations of the API. Registering a
playbook installs them (`control.registration`).

`deliveries` starts what takes an event, a message, a signed request or an upload; `notifications` reads them as services hand
them over. `hooks` answers requests to webhooks: `signatures` says which are signed, `webhooks` what they bring,
and `validation` whether a playbook can start with it.

Queues, buckets and HTTP are not here: who receives there hands on what came.
"""
