"""Interviewer mode: several respondents on one device, and a PIN between them."""
