"""Measures the functions and their requests over a stand-in for AWS's services, `aws_stub`: `cold` measures cold starts,
`direct_requests` the processor time of a request."""
