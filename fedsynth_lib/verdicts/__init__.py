"""What rows and print say about exhibits and claims."""
