"""What everything rests on: the contract of a method, noise and its accounting, statements, secure
sums."""
