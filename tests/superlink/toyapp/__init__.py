"""FLAIM over a toy table as a Flower app: a job that both sides agree on, a client and a server."""
