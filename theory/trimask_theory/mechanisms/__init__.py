"""The papers' mechanisms, for whoever lawfully holds rows."""
