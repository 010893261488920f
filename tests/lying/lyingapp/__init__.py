"""Studies of three sites, as they are, and a server that changes what it sends to them."""
