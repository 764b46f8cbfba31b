"""Standalone libraries: a library with the runtime that it needs, and a small C interface."""
