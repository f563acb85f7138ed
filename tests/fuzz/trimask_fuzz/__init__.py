"""Everything that reads what somebody else wrote, given what nobody would write."""
