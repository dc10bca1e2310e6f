"""Silos and devices on Flower: the same protocols between machines that do not trust each other."""
