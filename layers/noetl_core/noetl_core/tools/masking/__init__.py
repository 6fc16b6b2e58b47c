"""Masking of secrets: `scrub` masks answers, `results` stored objects; `forms` are the forms that a secret may take, `words`
tells words from secrets, `credential_fields` the fields that are not secret. The taint of secrets in templates is not here, but
in `expr.secret`."""
