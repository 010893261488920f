"""A study of several sites over a network: keys, masks, the Flower app, evaluation at the sites."""
