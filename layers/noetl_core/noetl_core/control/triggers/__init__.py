"""What starts playbooks by itself: `start` admits one occurrence or delivery of any trigger, `schedules` fires those whose
time has come, and `operate` is what people do with triggers. Registering a
playbook installs them (`control.catalog.registration`).

`uploads` handles the inbox. `deliveries` starts what takes an event, a message, a signed request or an upload; `notifications`
reads them as services hand them over. `hooks` answers requests to webhooks: `signatures` says which are signed, `webhooks` what
they bring, and `validation` whether a playbook can start with it.

Queues, buckets and HTTP are not here: who receives there hands on what came.
"""
