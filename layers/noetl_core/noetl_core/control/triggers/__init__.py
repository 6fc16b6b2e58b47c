"""Starts playbooks by triggers: `start` admits one occurrence or delivery of any trigger, `schedules` fires those that are due,
and `operate` lists, enables, disables and fires them. Registering a playbook installs them (`control.catalog.registration`).
`uploads` handles the inbox. `deliveries` starts playbooks for events, messages, signed requests and uploads; `notifications`
parses them. `hooks` answers requests to webhooks: `signatures` verifies them, `webhooks` extracts their events, and `validation`
checks whether a playbook can start with one. Queues, buckets and HTTP are not here: their receivers pass on deliveries."""
