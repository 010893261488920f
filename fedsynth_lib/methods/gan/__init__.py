"""Conditional generative adversarial networks (CTGAN), central and federated."""
