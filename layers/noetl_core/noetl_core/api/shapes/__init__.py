"""The types of the API's answers, by subject: `service`, `catalog`, `executions`, `following`, `steps`, `views`, `why`,
`limits` and `triggers`. The OpenAPI document is generated from them. No code is here."""
