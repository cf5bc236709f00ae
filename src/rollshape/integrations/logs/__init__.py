"""Logs of other libraries, read from disk: one file per format, and one table of tags per library."""
