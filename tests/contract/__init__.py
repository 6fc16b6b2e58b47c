"""What every adapter of a port must do, as test classes to subclass. A subclass gives the fixtures that its class names."""
