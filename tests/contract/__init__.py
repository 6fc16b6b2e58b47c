"""Contracts of the ports, as test classes to subclass by every adapter. A subclass defines the fixtures that its class names."""
