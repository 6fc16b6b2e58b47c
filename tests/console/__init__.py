"""The console: its server, and its pages in a browser."""
