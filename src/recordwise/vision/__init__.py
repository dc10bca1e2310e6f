"""Learning to see from an unlabelled pool: views, self-supervision, clustering networks, students that are networks."""
