"""The operations of the API over the control plane in this process: a function for each request class, which says with
`@RequestClass.answered` what it answers. Importing a module lets its functions answer; `every` imports all.

They know no HTTP. The caller's rights are checked before.
"""
