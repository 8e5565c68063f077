"""What the user wants, and where each assigned partition stands. Owned by the network thread."""
