"""An audit of the privacy that methods claim."""
