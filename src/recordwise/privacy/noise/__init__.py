"""Exact noise on integers: laws, their samplers, and the source of the randomness."""
