"""The app's own widgets: what every screen is made of."""
