"""The commands, by what they are for. Each module registers its own with the application when it is imported."""
