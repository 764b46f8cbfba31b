"""From sources to object files: compilers found, asked and run."""
