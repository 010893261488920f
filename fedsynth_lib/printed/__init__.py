"""What the five works print: values, claims, catalogues, and ours beside them."""
