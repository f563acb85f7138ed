"""What only a phone has: system bars, a key store, a file picker, work while the app is closed. Java through pyjnius.

No Kivy here: a job that sends while the app is closed has no window. Java's classes are taken inside functions, so that
all of it can be imported anywhere; the tests put classes of the same names in their place.
"""
