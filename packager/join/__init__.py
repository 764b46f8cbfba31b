"""Joins code and a blob to a finished library, whose own code and data stay where they are."""
