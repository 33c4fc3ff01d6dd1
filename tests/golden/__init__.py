"""Times from another simulator, to check ours against."""
