"""Every change a node's tables have seen: one module a dated step, never edited once it has been released."""
