"""Methods that measure marginals with noise, and fit a graphical model to them."""
