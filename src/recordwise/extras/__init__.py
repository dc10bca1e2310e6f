"""What an extra brings, asked for first by each module that cannot do without it.

Where it is not installed, the module's import ends in one line that names the extra.
"""
