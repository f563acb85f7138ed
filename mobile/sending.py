"""Where Android starts sending while the app is closed (java/org/trimask/survey/SendingJob.java)."""

from trimask_mobile.phone.background import main

main()
