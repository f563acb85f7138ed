"""The noise of verified moments, what a question costs, and which ball to clip to."""
