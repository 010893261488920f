"""Federated variational autoencoders."""
