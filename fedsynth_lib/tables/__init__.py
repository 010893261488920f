"""Tables: declarations, files, how methods see them, and which client holds which rows."""
