"""What lesson notebooks call: methods step by step, one's own table, the playground."""
