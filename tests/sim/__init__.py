"""A simulator of the world behind the ports: virtual clock, seed, faults. The oracle of the durability tests."""
