"""Real processes, real TLS, real disks: killed at random moments under load."""
