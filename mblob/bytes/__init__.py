"""Bytes on their way: primitives of the format, files as memory, payloads from where they are to
where they go."""
