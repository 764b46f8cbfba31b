"""What callers make: module trees of host code and payloads, and what is declared of their
functions."""
