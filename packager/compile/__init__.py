"""From sources to object files: compilers found, asked and run."""

# Of the distribution mblob-packager. mblob refuses one of another version (packager/__init__.py).
__version__ = "0.1.0"
