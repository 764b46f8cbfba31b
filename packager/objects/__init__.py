"""Questions to object files and archives, and edits of them."""
