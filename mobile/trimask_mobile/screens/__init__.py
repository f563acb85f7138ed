"""The app's screens, a module and a kv file for each part of the way: join, answer, after, home, kiosk."""
