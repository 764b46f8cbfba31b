"""The modules that callers make: trees of host code and payloads, and what is declared of their
functions."""
