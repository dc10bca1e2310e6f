"""Silos and devices: the same protocols between machines that do not trust each other."""
