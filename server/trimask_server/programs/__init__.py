"""The node programs: each role assembled from the other packages, started and stopped."""
