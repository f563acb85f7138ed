"""Where Android starts the app."""

from trimask_mobile.__main__ import main

main()
