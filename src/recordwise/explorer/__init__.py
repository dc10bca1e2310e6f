"""A job in the browser before it is run: its pool on a map, and what a budget would buy. From public data alone."""

from recordwise.explorer.exploration import Exploration, explore
from recordwise.explorer.page import render

__all__ = ["Exploration", "explore", "render"]
