"""One module per schema change, oldest first; a released one is never edited."""
