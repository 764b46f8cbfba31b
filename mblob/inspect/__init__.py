"""The inspection of a library, without running it: `mblob.open`, `verify`, `diff`, and the page."""
