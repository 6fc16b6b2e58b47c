"""The language server: answers over its protocol, and the functions that find them."""
