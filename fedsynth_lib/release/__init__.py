"""What a person does with rows of their own: draft a schema, synthesize, check, deploy."""
