"""The `trimask` program, and what its commands share: options, and a study on a screen.

Commands come from whichever distributions are installed. Importing this package imports nothing else.
"""
