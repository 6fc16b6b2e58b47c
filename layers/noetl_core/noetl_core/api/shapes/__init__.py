"""The API's answers as typed dictionaries, by subject: routes return them, the OpenAPI document describes them, the client passes
them on."""
