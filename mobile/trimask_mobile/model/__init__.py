"""What the app does, without a window: the flow, what is kept, what is said. Nothing here imports Kivy."""
