"""Variational autoencoders with a Bayesian Gaussian mixture in latent space (VAE-BGM)."""
