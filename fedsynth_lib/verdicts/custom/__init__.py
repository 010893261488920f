"""What a verdict takes from one work alone; nothing beside this folder names a work."""
