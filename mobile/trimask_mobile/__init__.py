"""The survey app: invitation, study, consent, questions, review, sending, receipt. See docs/app.md.

`model` has no Kivy in it and decides everything; `widgets` and `screens` draw it. `python -m trimask_mobile` starts it.
"""
