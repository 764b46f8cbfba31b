"""What is in a library, told without running it: `mblob.open`, `verify`, `diff`, and the page."""
