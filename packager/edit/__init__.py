"""Changes of finished libraries: `swap`, `convert`, `extract`."""
