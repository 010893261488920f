"""Running a method: central, local or federated, in process, under Ray or behind a SuperLink."""
