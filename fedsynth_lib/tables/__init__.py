"""Tables: what is declared of them, where their files are, how methods see them, who holds which
rows."""
