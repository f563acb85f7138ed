"""People's own tables: CSV as spreadsheets and pandas write it, read against a study or drafted into one."""
