"""Label public data with private records; protect every single record."""

__version__ = "0.1.0"
